"""The command that compares parser and printer with recorded texts."""

import json

from xla_backend.tools.check_text_corpus import main

GOOD = {
    "name": "good",
    "text": "ENTRY e { ROOT p = f32[2] parameter(0) }",
    "printed": "HloModule module_e, entry_computation_layout={(f32[2]{0})->f32[2]{0}}\n\n"
    "ENTRY %e (p: f32[2]) -> f32[2] {\n  ROOT %p = f32[2]{0} parameter(0)\n}\n\n",
}
REJECTED = {"name": "rejected", "text": "ENTRY e { ROOT p = f33[2] parameter(0) }", "error": "f33"}


def run(tmp_path, capsys, *cases):
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": cases}))
    return main([str(path)]), capsys.readouterr().out


def test_all_as_recorded(tmp_path, capsys):
    code, out = run(tmp_path, capsys, GOOD, REJECTED)
    assert code == 0 and "2 of 2 texts" in out


def test_each_kind_of_difference_is_told(tmp_path, capsys):
    misprinted = {**GOOD, "printed": GOOD["printed"].replace("%p", "%q")}
    accepted = {"name": "accepted", "text": GOOD["text"], "error": "no such thing"}
    refused = {**REJECTED, "printed": "x"}
    code, out = run(tmp_path, capsys, misprinted, accepted, refused, GOOD)
    assert code == 1 and "1 of 4 texts" in out
    assert "-  ROOT %q" in out and "+  ROOT %p" in out
    assert "accepted; XLA says: no such thing" in out
    assert "rejected: 1:20: unknown element type 'f33'" in out
