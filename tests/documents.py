"""Results that tests of documents name, small and made here."""

from pathlib import Path

from pitb import ledger, tables
from pitb.tables import SUMMARY, Table

PAGE = "optimizer-defaults"
LAST = "step 10 max|dparam|"


def results(folder: Path) -> Path:
    """A folder of results: two tables and a ledger in which one figure differs, one is missing."""
    wide = Table("mismatch")
    for row, first, last in (("sgdm", 7.45e-9, 0.04003), ("rmsprop", 0.0087, 1.7432)):
        wide.difference(row, "step 1 max|dparam|", first, "a.parquet")
        wide.difference(row, LAST, last, "a.parquet")
        wide.add(row, "verdict", "MISMATCH", "a.parquet")
    wide.add(SUMMARY, "exit_code", 1, "a.parquet")
    odd = Table("explanations", wide=False)
    odd.add('a "quoted" row', "a|b", "x | y", "b.json")
    odd.add("带 空格", "范围", "0.00250 to 0.0064", "b.json", "2.50e-03 to 6.40e-03")
    odd.add("list", "values", "[0.125, -2.5]", "b.json")
    odd.add("text", "words", "borrow of `model`", "b.json")
    odd.add("whole", "count", "1234567", "b.json")
    odd.add("arrow", "a-->b", "1", "b.json")
    page = folder / "tables" / PAGE
    tables.write([wide, odd], page)
    published = [
        ledger.Published(PAGE, "mismatch", "sgdm", "step 1 max|dparam|", "1.49e-8", "rounding"),
        ledger.Published(PAGE, "mismatch", "sgdm", LAST, "4.00e-2", "size"),
        ledger.Published(PAGE, "mismatch", "rmsprop", LAST, "1.84e+00", "size"),
        ledger.Published(PAGE, "mismatch", "adamw", LAST, "6.60e-4", "size"),
    ]
    rows = ledger.judge(published, tables.read_figures(page / "figures.csv"))
    ledger.write(rows, *(folder / f"ledger{suffix}" for suffix in ledger.SUFFIXES))
    (folder / "comparisons.csv").write_text(
        "a,b,verdict,worst,tolerance\nburn/x,pytorch/x,OK,1.19e-07,1e-06\n"
        "burn/x,pytorch/y,MISMATCH,1.74,1e-06\n"
    )
    (folder / "breadth-slice").mkdir()
    (folder / "breadth-slice/floor.csv").write_text(
        "optimizer,dtype,step,cases,burn_median\nSGD,float32,1,212,3.917650894946186e-08\n"
        "SGD,float32,10,214,1.2700001e-07\nAdam,float64,1,106,0.9999\n"
    )
    return folder
