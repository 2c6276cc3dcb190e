from __future__ import annotations

from model_setup.journal import Journal


def test_what_was_measured_is_not_measured_again_though_runs_were_killed(tmp_path):
    path, asked = tmp_path / "out.jsonl", []

    def measured(number):
        return Journal(path).once({"number": number}, lambda: asked.append(number) or {"twice": 2 * number})

    for number in range(3):
        assert measured(number) == {"twice": 2 * number}
        with path.open("a", encoding="utf-8") as file:
            file.write('{"settings": {"num')
    assert [measured(number) for number in range(3)] == [{"twice": 0}, {"twice": 2}, {"twice": 4}]
    assert asked == [0, 1, 2]
