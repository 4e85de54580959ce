import os
import threading

import pytest

from pitb import files
from pitb.errors import PitbError


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    files.write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    files.write_text(pipe, "text")
    reader.join(5)
    assert read == ["text"]
    assert pipe.is_fifo()


def test_nothing_is_left_where_writing_fails(tmp_path):
    with pytest.raises(RuntimeError), files.replacing(tmp_path / "a") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert not (tmp_path / "a").exists()
    with pytest.raises(PitbError, match="it is a folder"):
        files.write_text(tmp_path, "text")


def test_a_file_where_a_folder_should_be_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PitbError, match=r"cannot write .*file/a\.txt: "):
        files.write_text(tmp_path / "file/a.txt", "")
