"""What `coterie report` writes: one page about runs that needs nothing else, not even a network.

gathering.gather(folders)   the runs, as far as they can be read
  → subjects.subjects       runs on the same data, which can be laid side by side
  → story.story             plain data, {"subjects": [{"title", "views": {NAME: data}, …}]}
  → shell.page              HTML: template, style, scripts and the data, all in one file

Every figure has a module in `views/` that makes its data, and a component of the same name in
`static/NAME.js` that shows them. A component is `render(element, data)`: it may be called again on
the same element with newer data, and then keeps what the reader has chosen; `Coterie.show(story)`
does so for a whole page. The live view uses just that. `static/core.js` says how components are
written.
"""
