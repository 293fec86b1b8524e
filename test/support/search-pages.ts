/** What search engines answer, shaped as theirs are. */
const duckResult = (title: string, target: string, snippet: string, kind = 'web-result ') => `
<div class="result results_links results_links_deep ${kind}">
  <div class="links_main links_deep result__body">
    <h2 class="result__title">
      <a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=${encodeURIComponent(target)}&amp;rut=0a1b2c">${title}</a>
    </h2>
    <div class="result__extras"><div class="result__extras__url">
      <span class="result__icon"><a rel="nofollow" href="#"><img class="result__icon__img" width="16" height="16" alt="" src="//external-content.duckduckgo.com/ip3/x.ico" name="i15" /></a></span>
      <a class="result__url" href="#"> ${target.replace(/^https?:\/\//, '')} </a>
    </div></div>
    <a class="result__snippet" href="#">${snippet}</a>
    <div class="clear"></div>
  </div>
</div>`

const duckPage = (inner: string) => `<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>castle at DuckDuckGo</title></head>
<body class="body--html"><div><div class="serp__results"><div id="links" class="results">${inner}</div></div></div></body></html>`

export const duckDuckGo = {
  results: (count: number) =>
    duckPage(
      duckResult('Buy castles', 'https://ads.example/y', 'An advertisement', 'result--ad ') +
        Array.from({ length: count }, (_, n) =>
          duckResult(
            `Castle &amp; <b>keep</b> ${n + 1}`,
            `https://castle.example/${n + 1}?a=1&b=2`,
            `A <b>castle</b>\n  of stone`,
          ),
        ).join('') +
        duckResult('Not a page', 'javascript:alert(1)', 'nothing'),
    ),
  nothing: duckPage('<div class="no-results">No results.</div>'),
  challenge: `<html><body><form id="challenge-form" action="//duckduckgo.com/anomaly.js"><div class="anomaly-modal__mask">
<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div></div></form></body></html>`,
}

export const brave = {
  type: 'search',
  query: { original: 'castle', more_results_available: true },
  web: {
    type: 'search',
    results: [
      { title: 'Castle', url: 'https://castle.example/', description: 'A <strong>castle</strong>.', language: 'en' },
      {
        title: 'Tom &amp; Ann&#x27;s keep',
        url: 'https://keep.example/',
        description: '&quot;A keep&quot; &#8211; &odd; &amp;lt;',
      },
    ],
  },
}
export const searxng = {
  query: 'castle',
  number_of_results: 2,
  results: [
    { url: 'https://castle.example/', title: 'Castle', content: 'A castle.', engine: 'wikipedia', score: 4 },
    { url: 'https://keep.example/', title: 'Keep', content: null, engine: 'wikipedia', score: 1 },
    { url: 'https://moat.example/', title: 'Moat', content: 'A &amp; B <b>', engine: 'wikipedia', score: 1 },
  ],
  answers: [],
  unresponsive_engines: [],
}
export const tavily = {
  query: 'castle',
  answer: null,
  images: [],
  results: [{ title: 'Castle', url: 'https://castle.example/', content: 'A castle.', score: 0.98, raw_content: null }],
  response_time: 1.1,
}

const paragraph =
  'A castle is a type of fortified structure built during the Middle Ages, predominantly by the nobility or royalty and by military orders.'
export const article = `<!doctype html><html><head><title>Castles - An Encyclopaedia</title><style>p{color:red}</style></head><body>
<nav><a href="/home">Home</a><a href="/about">About</a></nav>
<article><h1>Castles</h1><p>${paragraph} See <a href="../keep?x=1">the keep</a>.</p><p>${paragraph}</p>
<ul><li>wall</li><li>moat</li></ul><pre><code>let castle = 1</code></pre><script>alert('never')</script><p>${paragraph}</p></article>
<footer>Imprint</footer></body></html>`
