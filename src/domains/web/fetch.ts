import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { decodeBody, isHtml, parseMediaType } from './decode-body.ts'
import type { PageReader, WebClient, WebResponse } from './ports.ts'

export type FetchDeps = Readonly<{
  client: WebClient
  pages: PageReader
  bytesMax: number
  userAgent: string
  /** Throws if the caller's contexts do not allow the tool to reach the host. */
  requireHost(call: Pick<Call, 'principal'>, tool: string, host: string): void
}>
type FetchInput = Readonly<{
  url: string
  to_markdown: boolean
  follow_redirects: boolean
  timeout_secs: number
}>

export function createFetch({ client, pages, bytesMax, userAgent, requireHost }: FetchDeps) {
  async function fetchPage(call: Call, input: FetchInput) {
    const timeout = AbortSignal.timeout(input.timeout_secs * 1000)
    const signal = AbortSignal.any([call.signal, timeout])
    try {
      const { url, response } = await follow(call, input, signal)
      return await present(call, url, response, input, signal)
    } catch (error) {
      if (call.signal.aborted) throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
      if (!timeout.aborted) throw error
      const rule = `${input.timeout_secs} s`
      throw new AppError(
        'ERR_TIMED_OUT',
        `The page was not fetched and read within ${rule}. Try again, or raise timeout_secs.`,
        {
          timeout_secs: input.timeout_secs,
        },
      )
    }
  }

  /** Every redirect is checked like the first address. */
  async function follow(call: Call, input: FetchInput, signal: AbortSignal) {
    let url = requireUrl(input.url)
    for (let hops = 0; ; hops++) {
      requireHost(call, 'web.fetch', url.hostname)
      const headers = { 'user-agent': userAgent, accept: 'text/html,application/xhtml+xml,text/*;q=0.9,*/*;q=0.5' }
      const response = await client.send({ url, method: 'GET', headers, bytesMax, signal, trusted: false })
      const { location, status } = response
      const isRedirect = [301, 302, 303, 307, 308].includes(status) && location !== undefined
      if (!isRedirect || !input.follow_redirects) return { url, response }
      if (hops >= limits.webRedirectsMax) {
        const message = `The address leads through more than ${limits.webRedirectsMax} redirects`
        throw webFailed(message, { url: displayed(url) }, quotedOf(input, url))
      }
      url = requireUrl(URL.parse(location, url.href)?.href ?? '', 'The page redirects to an address that')
    }
  }

  async function present(call: Call, url: URL, response: WebResponse, input: FetchInput, signal: AbortSignal) {
    const { to_markdown } = input
    const { status, body } = response
    if (status >= 400) {
      const details = { http_status: status, url: displayed(url) }
      throw webFailed(`The server answered with the status ${status}`, details, quotedOf(input, url))
    }
    const type = parseMediaType(response.contentType)
    const text = decodeBody(body, type)
    if (text === undefined) {
      throw new AppError(
        'ERR_NOT_TEXT',
        'The content at this address is not text. Fetch it with cmd.run, if you may use that.',
        { content_type: type?.name ?? null, url: displayed(url) },
        { quotes: ['content_type', ...quotedOf(input, url)] },
      )
    }
    const isConverted = to_markdown && isHtml(type)
    const markdown = isConverted ? await pages.toMarkdown(text, url.href, signal) : undefined
    if (isConverted && markdown === undefined)
      call.warn('The page could not be turned into Markdown; this is its HTML.')
    const format = markdown !== undefined ? 'markdown' : isHtml(type) ? 'html' : 'text'
    return {
      result: markdown ?? text,
      url: url.href,
      http_status: status,
      content_length: body.length,
      content_format: format as 'markdown' | 'html' | 'text',
    }
  }

  return fetchPage
}

function requireUrl(text: string, what = "'url'"): URL {
  const url = URL.parse(text)
  const refuse = (rule: string): never => {
    throw new AppError('ERR_INVALID_INPUT', `${what} ${rule}.`, { field: 'url', constraint: rule })
  }
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.hostname === '') {
    return refuse('must be a whole address that begins with http:// or https://')
  }
  if (url.username !== '' || url.password !== '') refuse('must not have a user name or a password')
  url.hash = ''
  return url
}

/** A part of an address that others may have written, for details. */
const displayed = (url: URL): string => url.href.slice(0, 500)

/** An address to which a server redirected is in the words of that server. */
const quotedOf = ({ url }: FetchInput, found: URL): readonly string[] =>
  found.href === requireUrl(url).href ? [] : ['url']

export const webFailed = (
  message: string,
  details: Readonly<Record<string, unknown>>,
  quotes: readonly string[] = [],
): AppError => new AppError('ERR_WEB_FAILED', `${message}.`, details, { quotes })
