import { parentPort } from 'node:worker_threads'
import { Readability } from '@mozilla/readability'
import { parseHTML } from 'linkedom'
import { NodeHtmlMarkdown } from 'node-html-markdown'
import type { SearchResult } from '../domains/web/ports.ts'

/** Reads one page in a thread of its own: what others wrote may take long or need much, and then only this thread ends. */
export type PageTask =
  | Readonly<{ kind: 'markdown'; html: string; url: string }>
  | Readonly<{ kind: 'search-results'; html: string }>
export type PageAnswer = Readonly<{ markdown?: string; results?: readonly SearchResult[]; wantsPerson?: true }>

/** What is used of a document. */
type Element = {
  textContent: string | null
  outerHTML: string
  getAttribute(name: string): string | null
  setAttribute(name: string, value: string): void
  remove(): void
  querySelector(selector: string): Element | null
  querySelectorAll(selector: string): Iterable<Element>
}
type Page = Element & { documentElement: Element | null; body: Element | null; title: string }

/** An article that says less than this is probably not what the page is about. */
const ARTICLE_CHARS_MIN = 200
const ELEMENTS_MAX = 200_000

const parse = (html: string): Page => parseHTML(html).document as unknown as Page
const plain = (text: string | null | undefined): string => (text ?? '').replaceAll(/\s+/g, ' ').trim()
const toMarkdown = (html: string): string => NodeHtmlMarkdown.translate(html).trim()

function cleanPage(html: string, url: string): Page {
  const page = parse(/<html[\s>]/i.test(html) ? html : `<!doctype html><html><body>${html}</body></html>`)
  for (const element of [...page.querySelectorAll('script, style, noscript, template, iframe, object, embed')]) {
    element.remove()
  }
  const base = page.querySelector('base[href]')?.getAttribute('href') ?? ''
  const from = URL.parse(base, url)?.href ?? url
  for (const [selector, name] of [
    ['a[href]', 'href'],
    ['img[src]', 'src'],
  ] as const) {
    for (const element of page.querySelectorAll(selector)) {
      const target = URL.parse(element.getAttribute(name) ?? '', from)
      if (target !== null) element.setAttribute(name, target.href)
    }
  }
  return page
}

function markdownOf(html: string, url: string): string {
  const page = cleanPage(html, url)
  const whole = toMarkdown(page.body?.outerHTML ?? '')
  const article = new Readability(page as never, { maxElemsToParse: ELEMENTS_MAX }).parse()
  const content = article?.content ?? ''
  if ((article?.textContent ?? '').trim().length < ARTICLE_CHARS_MIN) return whole
  const title = plain(article?.title)
  const text = toMarkdown(content)
  return title === '' || text.startsWith('# ') ? text : `# ${title}\n\n${text}`
}

/** DuckDuckGo's page without scripts: each result links through a redirect that names its target. */
function resultsOf(html: string): PageAnswer {
  const page = parse(html)
  const results: SearchResult[] = []
  for (const result of page.querySelectorAll('.result')) {
    if (/\bresult--ad\b/.test(result.getAttribute('class') ?? '')) continue
    const link = result.querySelector('a.result__a')
    const url = targetOf(link?.getAttribute('href') ?? '')
    const title = plain(link?.textContent)
    if (url === undefined || title === '') continue
    results.push({ title, url, snippet: plain(result.querySelector('.result__snippet')?.textContent) })
  }
  const wantsPerson = results.length === 0 && page.querySelector('.anomaly-modal, #challenge-form') !== null
  return wantsPerson ? { wantsPerson } : { results }
}

function targetOf(href: string): string | undefined {
  const link = URL.parse(href, 'https://duckduckgo.com/')
  const isRedirect = link?.hostname === 'duckduckgo.com' && link.pathname === '/l/'
  const target = isRedirect ? URL.parse(link.searchParams.get('uddg') ?? '') : link
  return target !== null && /^https?:$/.test(target.protocol) ? target.href : undefined
}

parentPort!.once('message', (task: PageTask) => {
  const answer: PageAnswer =
    task.kind === 'markdown' ? { markdown: markdownOf(task.html, task.url) } : resultsOf(task.html)
  parentPort!.postMessage(answer)
})
