import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { Readable, Transform } from 'node:stream'
import { AppError } from '../contract/app-error.ts'
import { createAddressRule, decompressed, type HttpClientDeps, resolveBySystem, unlessAborted } from './http-client.ts'
import { requestAt } from './request-at.ts'

/** The shape of `fetch` that libraries take. */
export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

export type CheckedFetch = Readonly<{
  /** Each request goes to an address that was judged for it. No redirect is followed: the caller asks again, and is judged again. */
  fetch: Fetch
  /** Throws when no address of the host may be reached. */
  check(url: URL, signal: AbortSignal): Promise<void>
}>

const CARRIAGE_RETURN = 0x0d
const NO_BODY: ReadonlySet<number> = new Set([101, 204, 205, 304])

/** `fetch` for addresses that others chose, with answers as streams. What a reader holds whole has at most `messageBytesMax` bytes. */
export function createCheckedFetch({
  allowedNetworks,
  resolve = resolveBySystem,
  messageBytesMax,
}: HttpClientDeps & Readonly<{ messageBytesMax: number }>): CheckedFetch {
  const isAllowed = createAddressRule(allowedNetworks)

  async function addressOf(url: URL, signal: AbortSignal): Promise<string> {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const addresses = isIP(host) === 0 ? await unlessAborted(resolve(host), signal) : [host]
    const allowed = addresses.find(isAllowed)
    if (allowed !== undefined) return allowed
    throw new AppError(
      'ERR_POLICY_VIOLATION',
      'DomainNotAllowed: the host has no address on the open internet outside this machine. Ask the operator to add its address to web.allow_private_addresses, if it should be reached.',
      { violation: 'DomainNotAllowed', reason: 'private_address' },
    )
  }

  return {
    async check(url, signal) {
      await addressOf(url, signal).catch((error: unknown) => {
        throw error instanceof AppError ? error : unknownHost(error)
      })
    },
    async fetch(input, init = {}) {
      const url = new URL(input)
      const signal = init.signal ?? new AbortController().signal
      const address = await addressOf(url, signal)
      const message = await open(url, address, init, signal)
      const status = message.statusCode ?? 0
      if (status < 200 || status > 599) {
        message.destroy()
        throw new Error(`the server answered with the status ${status}`)
      }
      const body = NO_BODY.has(status) ? null : Readable.toWeb(bounded(message, messageBytesMax))
      if (body === null) message.resume()
      return new Response(body as ReadableStream | null, { status, headers: headersOf(message) })
    },
  }
}

const unknownHost = (cause: unknown): AppError =>
  new AppError('ERR_WEB_FAILED', 'The name of the host cannot be resolved.', {}, { cause })

async function open(url: URL, address: string, init: RequestInit, signal: AbortSignal): Promise<IncomingMessage> {
  const body =
    init.body === undefined || init.body === null ? undefined : Buffer.from(await new Response(init.body).arrayBuffer())
  const ofCaller = Object.fromEntries(new Headers(init.headers))
  const headers = { ...ofCaller, host: url.host, 'accept-encoding': 'gzip, br' }
  return await requestAt(url, address, { method: init.method ?? 'GET', headers, body, signal })
}

/** A stream of events may last for ever, but its reader holds what is between two empty lines. Every other answer is held whole. */
function bounded(message: IncomingMessage, bytesMax: number): Readable {
  const isEvents = /^text\/event-stream\b/i.test(message.headers['content-type'] ?? '')
  let length = 0
  let line = 0
  let last: number | undefined
  function count(chunk: Buffer): void {
    let from = 0
    for (let end = isEvents ? chunk.indexOf(0x0a) : -1; end !== -1; end = chunk.indexOf(0x0a, from)) {
      const bytes = line + end - from
      length += end + 1 - from
      const isEmpty = bytes === 0 || (bytes === 1 && (end > 0 ? chunk[end - 1] : last) === CARRIAGE_RETURN)
      if (isEmpty) length = 0
      line = 0
      from = end + 1
    }
    last = chunk.at(-1) ?? last
    line += chunk.length - from
    length += chunk.length - from
  }
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      count(chunk)
      if (length > bytesMax) done(new Error(`a message of the server has more than ${bytesMax} bytes`))
      else done(null, chunk)
    },
  })
  const source = decompressed(message)
  source.on('error', (error) => counter.destroy(error))
  counter.on('close', () => message.destroy())
  return source.pipe(counter)
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!
    // What it named is undone already.
    if (!/^(content-encoding|content-length)$/i.test(name)) headers.append(name, rawHeaders[index + 1]!)
  }
  return headers
}
