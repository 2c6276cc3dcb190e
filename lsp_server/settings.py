"""What the user can choose, and where each may be set. `settings_sources` reads it from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lsp_server.setting_kinds import FLAG, FLAGS, GLOBS, PATH, TEXT, WEB_ADDRESS, Kind, number, one_of, whole
from lsp_server.text_prompt import SERVED


@dataclass(frozen=True)
class Settings:
    """Everything that can be chosen; what each means is in ``TABLE``."""

    enabled: bool = True
    languages: Mapping[str, bool] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    trigger: Literal["automatic", "manual"] = "automatic"
    debounce: int | None = None
    time_limit: int = 2000
    max_tokens: int = 64
    temperature: float = 0.0
    seed: int = 0
    context_tokens: int = 1920
    cross_file: bool = True
    pause_on_battery: bool = False
    model: str | None = None
    draft: str | None = None
    draft2: str | None = None
    repository: str | None = None
    weights: str = "auto"
    device: str = "auto"
    threads: int | None = None
    idle_minutes: float = 15.0
    in_process: bool = False
    backend: Literal["local", "openai"] = "local"
    server_url: str | None = None
    server_model: str | None = None
    server_family: str | None = None

    def speaks(self, language: str) -> bool:
        """Whether suggestions are wanted in the language of this identifier."""
        return self.languages.get(language, self.languages.get("*", True))

    def loads_like(self, other: Settings) -> bool:
        """Whether what was loaded for these serves for ``other`` as well."""
        return all(getattr(self, name) == getattr(other, name) for name in LOADED_WITH)


@dataclass(frozen=True)
class Setting:
    """kind: its values. project: whether a project's file may set it, which others may have written;
    ``"preset"`` if only to the name of a preset. loads: whether the model is loaded anew when it changes.
    option: of the command line, if it has one there.

    meaning, unset: for people; unset says what holds without a value, where that is no value itself.
    """

    kind: Kind
    meaning: str
    project: bool | Literal["preset"] = False
    loads: bool = False
    option: str = ""
    unset: str = ""


TABLE: dict[str, Setting] = {
    "enabled": Setting(FLAG, "whether Draftline suggests anything", project=True),
    "languages": Setting(
        FLAGS,
        "the languages to suggest in, by identifier; `*` is for all others",
        project=True,
        unset="all",
    ),
    "exclude": Setting(
        GLOBS,
        "files that are neither read nor suggested in, beside those that hold secrets by their name; each "
        "place where it is set adds to the others",
        project=True,
        unset="none",
    ),
    "trigger": Setting(
        one_of("automatic", "manual"), "`manual`: only where a suggestion is asked for", project=True
    ),
    "debounce": Setting(
        whole(0, 5000),
        "milliseconds without typing before the model is asked",
        project=True,
        unset="by the pace of typing and the model's speed",
    ),
    "time_limit": Setting(
        whole(100, 60_000),
        "milliseconds after which a suggestion is shown as far as it got; twice that if it was asked for, "
        "and if there is nothing yet",
        project=True,
    ),
    "max_tokens": Setting(whole(1, 512), "tokens that a suggestion has at most", project=True),
    "temperature": Setting(
        number(0, 2), "how freely tokens are drawn; 0: always the likeliest", project=True
    ),
    "seed": Setting(
        whole(0, 2**31 - 1), "with a temperature, the same seed draws the same text", project=True
    ),
    "context_tokens": Setting(
        whole(64, 32_768),
        "tokens that the model reads: three parts of five before the cursor, one behind it, one of other "
        "files",
        project=True,
    ),
    "cross_file": Setting(FLAG, "whether other files are shown to the model", project=True),
    "pause_on_battery": Setting(FLAG, "whether to suggest only on request while on battery"),
    "model": Setting(
        TEXT,
        "a model's directory, a GGUF file or a preset's name",
        project="preset",
        loads=True,
        option="--model",
        unset="this machine's preset",
    ),
    "draft": Setting(
        TEXT,
        "a smaller model of the same family that guesses, named in the same way",
        project="preset",
        loads=True,
        option="--draft",
        unset="none",
    ),
    "draft2": Setting(
        PATH,
        "a trigram table's file",
        loads=True,
        unset="the repository's own, else that of code in general",
    ),
    "repository": Setting(
        PATH, "the folder whose files are read", loads=True, unset="the one that the editor has open"
    ),
    "weights": Setting(
        one_of("auto", "int8", "fp32", "bf16", "fp16"),
        "how the weights are held: `bf16` needs a GPU or AVX-512, `fp16` a GPU; `auto` is `int8` on a CPU "
        "and 16 bits on a GPU, or `int8` there if that has no room",
        loads=True,
        option="--weights",
    ),
    "device": Setting(
        one_of("auto", "cpu", "cuda"), "`auto` is the GPU if there is one with enough room", loads=True
    ),
    "threads": Setting(
        whole(1, 1024), "processor threads that compute", loads=True, unset="one for each physical core"
    ),
    "idle_minutes": Setting(
        number(0, 10_080),
        "minutes without a request after which the model's memory is freed; 0, and with `in_process`: never",
    ),
    "in_process": Setting(
        FLAG,
        "whether each editor window loads the model in its own server",
        loads=True,
        option="--in-process",
    ),
    "backend": Setting(
        one_of("local", "openai"),
        "`openai`: a server that speaks the OpenAI completions API answers, and text leaves the machine",
        loads=True,
    ),
    "server_url": Setting(WEB_ADDRESS, "the address of that server", loads=True, unset="none"),
    "server_model": Setting(TEXT, "the name that the model has on that server", loads=True, unset="none"),
    "server_family": Setting(
        one_of(*(family.name for family in SERVED)),
        "the family of models that it is of",
        loads=True,
        unset="what its name tells",
    ),
}
LOADED_WITH = tuple(name for name, setting in TABLE.items() if setting.loads)
