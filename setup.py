"""What setup.cfg cannot say: in a wheel, core, data and tasks are inside of transformer_suite."""

import re
import shutil
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

OURS = ("core", "data", "tasks")
IMPORT = re.compile(rf"^(\s*(?:from|import) )(?=(?:{'|'.join(OURS)})[. ])", re.MULTILINE)


class Nested(build_py):
    """Moves the three packages below ``transformer_suite`` and rewrites their import lines."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib, "transformer_suite")
        for name in OURS:
            shutil.rmtree(package / name, ignore_errors=True)
            shutil.move(Path(self.build_lib, name), package)
        for path in package.rglob("*.py"):
            text = IMPORT.sub(r"\1transformer_suite.", path.read_text(encoding="utf-8"))
            path.write_text(text, encoding="utf-8")


class Wheel(bdist_wheel):
    """Names the one package of the wheel in its metadata."""

    def egg2dist(self, egginfo_path: Any, distinfo_path: Any) -> None:
        Path(egginfo_path, "top_level.txt").write_text("transformer_suite\n", encoding="utf-8")
        super().egg2dist(egginfo_path, distinfo_path)


setup(cmdclass={"build_py": Nested, "bdist_wheel": Wheel})
