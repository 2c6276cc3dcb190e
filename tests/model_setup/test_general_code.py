"""Code in general: the library of this Python, and something of every package."""

from model_setup import general_code
from model_setup.general_code import general_texts


def test_general_code_is_the_standard_library_and_an_equal_share_of_each_package(tmp_path, monkeypatch):
    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    write("lib/abc.py", "import _abc\n" * 10)
    write("lib/test/test_abc.py", "not this\n")
    write("lib/site-packages/small/__init__.py", "small = 1\n")
    write("lib/site-packages/small/credentials.json", "not this\n")
    write("lib/site-packages/large/__init__.py", "large = 0\n")
    for i in range(100):
        write(f"lib/site-packages/large/part{i}.py", f"part = {i:2d}\nkey = 'AKIA{'A' * 16}'\n")
    write("lib/site-packages/no_package/data.py", "not this\n")
    library = str(tmp_path / "lib")
    packages = str(tmp_path / "lib" / "site-packages")
    monkeypatch.setattr(
        general_code.sysconfig,
        "get_paths",
        lambda: {"stdlib": library, "purelib": packages, "platlib": packages},
    )
    monkeypatch.setattr(general_code, "CHARACTERS", 300)
    texts = list(general_texts())
    assert texts[:2] == ["import _abc\n" * 10, "small = 1\n"]
    large = texts[2:]
    assert len(large) == 17  # ten characters each, to fill what is left of the 300
    assert set(large) <= {"large = 0\n", *(f"part = {i:2d}\n" for i in range(100))}
