"""The page of `coterie report`: one HTML file that works offline.

read_runs(folders)           reads the runs
  → group_runs(runs)         groups runs on the same data
  → build_page_data(runs)    plain data, {"groups": [{"title", "views": {NAME: data}}, …]}
  → render_page(…)           one HTML file with template, style, scripts and data

Each figure has a module `views/NAME_view.py`, which makes its data, and a component of that name in
`static/NAME.js`, which shows them. A component is `render(element, data)`. It can be called again
with newer data and then keeps the reader's choices. `Coterie.show(pageData)` calls all components;
the live page does so at each update. `static/core.js` explains how to write a component.
"""
