import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import { BlockList, isIP } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import type { HttpSender } from '../domains/executions/ports.ts'
import { isPublicAddress } from '../kernel/public-address.ts'

const ANSWER_BYTES_MAX = 1024 * 1024

/**
 * Sends what a manifest wants delivered. The address is looked up once and the connection goes to what was found: a name
 * cannot lead to this machine or its network by changing in between. Redirections are not followed.
 */
export function createHttpSender({ allowed }: Readonly<{ allowed: readonly string[] }>): HttpSender {
  const exceptions = new BlockList()
  for (const entry of allowed) {
    const [address, bits] = entry.split('/')
    const family = isIP(address!) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) exceptions.addAddress(address!, family)
    else exceptions.addSubnet(address!, Number(bits), family)
  }
  const mayReach = (address: string): boolean =>
    isPublicAddress(address) || exceptions.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

  async function addressOf(url: URL): Promise<LookupAddress> {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const found = isIP(host) > 0 ? [{ address: host, family: isIP(host) }] : await lookup(host, { all: true })
    const passed = found.find(({ address }) => mayReach(address))
    if (passed !== undefined) return passed
    throw failure('it leads to a private address; add it to web.allow_private_addresses if that is meant')
  }

  return {
    async send({ url, method, headers, body, timeoutMs, signal }) {
      const target = URL.parse(url)
      if (target === null || !/^https?:$/.test(target.protocol)) throw failure('it must be an http:// or https:// URL')
      try {
        const { address, family } = await addressOf(target)
        const stop = AbortSignal.any([signal, AbortSignal.timeout(Math.max(1, Math.min(timeoutMs, 2 ** 31 - 1)))])
        return await exchange(target, { method, headers, body, stop, address, family })
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof AppError) throw error
        throw failure('it could not be reached, or did not answer in time')
      }
    },
  }
}

type Exchange = Readonly<{
  method: string
  headers: Readonly<Record<string, string>>
  body: string
  stop: AbortSignal
  address: string
  family: number
}>

function exchange(target: URL, { method, headers, body, stop, address, family }: Exchange) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>()
  const send = target.protocol === 'https:' ? secureRequest : plainRequest
  const sent = send(target, {
    method,
    headers: { 'content-type': 'application/json', ...headers, 'content-length': String(Buffer.byteLength(body)) },
    signal: stop,
    agent: false,
    lookup: (_host, options, found) =>
      options.all === true ? found(null, [{ address, family }]) : found(null, address, family),
  })
  sent.on('error', reject)
  sent.on('response', (response) => {
    const chunks: Buffer[] = []
    let bytes = 0
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= ANSWER_BYTES_MAX) chunks.push(chunk)
    })
    response.on('error', reject)
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }),
    )
  })
  sent.end(body)
  return promise
}

const failure = (reason: string): AppError =>
  new AppError('ERR_OUTPUT_HANDLER_FAILED', `url: ${reason}`, { field: 'url' })
