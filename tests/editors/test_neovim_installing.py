"""The plugin's folder as plugin managers take it; a path alone is what the other tests use."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.editors.neovim_session import PLUGIN, neovim


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_vim_pack_takes_a_repository_that_holds_this_folder_alone(way, tmp_path):
    binary, native = way
    if not native:
        pytest.skip("one run in a Neovim that has vim.pack is enough")
    repository = shutil.copytree(PLUGIN, tmp_path / "repository")
    for step in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *step], cwd=repository, check=True)
    add = f"vim.pack.add({{ {{ src = 'file://{repository}', name = 'draftline' }} }}, {{ confirm = false }})"
    without = f"vim.opt.runtimepath:remove('{PLUGIN}')"
    with neovim(binary, tmp_path, {"def f": "(x)"}, before=f"{without}; {add}", wait=False) as editor:
        # it answers us already while it installs
        editor.wait(lambda: editor.lua("return package.loaded.draftline ~= nil"), "the plugin")
        editor.wait_for_state("ready")
        (found,) = editor.lua("return vim.api.nvim_get_runtime_file('lua/draftline/init.lua', true)")
        assert found.startswith(str(tmp_path))
        editor.keys("idef f")
        editor.wait_for_screen("def f(x)")
        editor.keys("<Esc>:help draftline<CR>")
        assert editor.lua("return vim.fn.expand('%:t')") == "draftline.txt"
