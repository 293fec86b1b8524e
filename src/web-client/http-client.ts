import { lookup } from 'node:dns/promises'
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { Readable } from 'node:stream'
import { createBrotliDecompress, createUnzip } from 'node:zlib'
import { AppError } from '../contract/app-error.ts'
import type { WebClient, WebRequest, WebResponse } from '../domains/web/ports.ts'
import { isOpenAddress, requestAt } from './request-at.ts'

export type HttpClientDeps = Readonly<{
  /** Addresses and networks that may be reached although they are private or of this machine. */
  allowedNetworks: readonly string[]
  /** Every address of a name; the system's own unless given. */
  resolve?(host: string): Promise<readonly string[]>
}>

const ADDRESSES_MAX = 8

/** HTTP, one request on one connection. A name is asked once, and only addresses that were judged are connected to. */
export function createHttpClient({ allowedNetworks, resolve = resolveBySystem }: HttpClientDeps): WebClient {
  const isAllowed = createAddressRule(allowedNetworks)

  async function addressesOf({ url, trusted, signal }: WebRequest): Promise<readonly string[]> {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const addresses = isIP(host) === 0 ? await unlessAborted(resolve(host), signal) : [host]
    const allowed = addresses.filter((candidate) => trusted || isAllowed(candidate))
    if (allowed.length > 0) return allowed.slice(0, ADDRESSES_MAX)
    throw new AppError(
      'ERR_POLICY_VIOLATION',
      'DomainNotAllowed: the host has no address on the open internet outside this machine. Ask the operator to add its address to web.allow_private_addresses, if it should be reached.',
      { violation: 'DomainNotAllowed', reason: 'private_address' },
    )
  }

  return {
    async send(request) {
      try {
        return await read(request, await openFirst(request, await addressesOf(request)))
      } catch (error) {
        throw toAppError(error, request)
      }
    },
  }
}

export function createAddressRule(networks: readonly string[]): (address: string) => boolean {
  const allowed = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (prefix === undefined) allowed.addAddress(address, family)
    else allowed.addSubnet(address, Number(prefix), family)
  }
  return (address) =>
    isOpenAddress(address) || (isIP(address) !== 0 && allowed.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4'))
}

export const resolveBySystem = async (host: string): Promise<readonly string[]> =>
  (await lookup(host, { all: true })).map(({ address }) => address)

export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}

/** A name may have addresses that cannot be reached from here; where no connection came about, nothing was sent. */
async function openFirst(request: WebRequest, addresses: readonly string[]): Promise<IncomingMessage> {
  for (const [index, address] of addresses.entries()) {
    try {
      return await open(request, address)
    } catch (error) {
      const isLast = index === addresses.length - 1
      if (isLast || (error as NodeJS.ErrnoException).syscall !== 'connect') throw error
    }
  }
  throw new Error('no address')
}

function open({ url, method, headers, body, signal }: WebRequest, address: string): Promise<IncomingMessage> {
  const all = { host: url.host, 'accept-encoding': 'gzip, br', ...headers }
  return requestAt(url, address, {
    method,
    headers: all,
    body: body === undefined ? undefined : Buffer.from(body),
    signal,
  })
}

async function read({ bytesMax, signal }: WebRequest, message: IncomingMessage): Promise<WebResponse> {
  try {
    const body = await gather(message, bytesMax, signal)
    return {
      status: message.statusCode ?? 0,
      location: message.headers.location,
      contentType: message.headers['content-type'],
      retryAfter: message.headers['retry-after'],
      body,
    }
  } finally {
    message.destroy()
  }
}

/** The bound counts before and after decompression: a small message can become a very large one. */
async function gather(message: IncomingMessage, bytesMax: number, signal: AbortSignal): Promise<Buffer> {
  if (Number(message.headers['content-length'] ?? 0) > bytesMax) throw tooLarge(bytesMax)
  const chunks: Buffer[] = []
  let [size, received] = [0, 0]
  const source = decompressed(message)
  if (source !== message) {
    message.on('data', (chunk: Buffer) => {
      received += chunk.length
    })
  }
  try {
    for await (const chunk of source) {
      if (signal.aborted) throw signal.reason
      size += chunk.length
      if (size > bytesMax) throw tooLarge(bytesMax)
      chunks.push(chunk)
    }
  } catch (error) {
    // Nothing at all is no compressed text, though redirects and the like often say that it is.
    if (source === message || received > 0 || !message.complete) throw error
  }
  return Buffer.concat(chunks)
}

export function decompressed(message: IncomingMessage): Readable & AsyncIterable<Buffer> {
  const coding = (message.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (coding === 'identity' || coding === '') return message
  const decoder = ['gzip', 'x-gzip', 'deflate'].includes(coding)
    ? createUnzip()
    : coding === 'br'
      ? createBrotliDecompress()
      : undefined
  if (decoder === undefined) throw failed('The server sent its answer in an unsupported encoding', {})
  message.on('error', (error) => decoder.destroy(error))
  decoder.on('close', () => message.destroy())
  return message.pipe(decoder)
}

const tooLarge = (bytesMax: number): AppError =>
  new AppError(
    'ERR_TOO_LARGE',
    `The content at this address has more than ${bytesMax} bytes. Fetch something smaller.`,
    {
      violation: 'OutputSizeLimitExceeded',
      rule: `at most ${bytesMax} bytes`,
    },
  )

const failed = (message: string, details: Readonly<Record<string, unknown>>, cause?: unknown): AppError =>
  new AppError('ERR_WEB_FAILED', `${message}.`, details, { cause })

/** What was aborted is for the caller to name: it knows whose end it was. */
function toAppError(error: unknown, { signal }: WebRequest): AppError {
  if (error instanceof AppError) return error
  if (signal.aborted) return new AppError('ERR_TIMED_OUT', 'The answer did not come in time.', {}, { cause: error })
  const reason = (error as NodeJS.ErrnoException).code ?? 'no code'
  const message =
    reason === 'ENOTFOUND' || reason === 'EAI_AGAIN'
      ? 'The name of the host cannot be resolved'
      : `The request to the host failed (${reason})`
  return failed(message, { reason }, error)
}
