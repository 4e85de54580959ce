# Takes: comparisons, traces and evidence. Gives: each page's tables, in both languages and as CSV.

for page_name in CONFIG.pages:
    page = PAGES[page_name]

    rule:
        name:
            f"make_tables_{page_name.replace('-', '_')}"
        input:
            script=script("make_tables.py"),
            found=results(page.needs()),
        output:
            figures=f"results/tables/{page_name}/figures.csv",
            tables=TABLE_FILES[page_name],
        log:
            f"results/logs/make_tables_{page_name}.log",
        benchmark:
            f"results/benchmarks/make_tables_{page_name}.tsv"
        threads: 1
        resources:
            mem_mb=at_each_attempt(1000),
            runtime=at_each_attempt(10),
        params:
            page=page_name,
        message:
            f"Making the tables of {page_name}"
        shell:
            "python {input.script[0]:q} {params.page:q} --results results > {log:q} 2>&1"
