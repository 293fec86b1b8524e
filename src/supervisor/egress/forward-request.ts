import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { pipeline } from 'node:stream'
import { request as httpRequest } from '../../kernel/node-http.ts'
import type { CheckedConnector } from './checked-connection.ts'
import type { EgressRules } from './egress-policy.ts'
import { endWith } from './end-with.ts'
import { joinStreams } from './join-streams.ts'
import { downstreamHeaders, upstreamHeaders } from './message-headers.ts'
import { type Refusal, rawRefusal, refusalBody, refusalHeaders, refuse } from './refusal.ts'
import { createSecretMask } from './secret-mask.ts'
import { type Target, targetName } from './target.ts'

/** An allowed request and its target. `path` is in origin form. */
export type ForwardedRequest = Readonly<{
  request: IncomingMessage
  target: Target
  scheme: 'http' | 'https'
  path: string
  rules: EgressRules
}>

type ForwardDeps = Readonly<{
  connector: CheckedConnector
  headerBytesMax: number
  onRefusal(refusal: Refusal, target: Target): void
}>

type RequestForwarder = Readonly<{
  forward(forwarded: ForwardedRequest, response: ServerResponse): Promise<void>
  /** Forwards a request that upgrades to a WebSocket. `head` is what followed the request. */
  forwardUpgrade(forwarded: ForwardedRequest, client: Socket, head: Buffer): Promise<void>
}>

export function createRequestForwarder(deps: ForwardDeps): RequestForwarder {
  async function forward(forwarded: ForwardedRequest, response: ServerResponse): Promise<void> {
    const refuseIt = (refusal: Refusal): void => {
      deps.onRefusal(refusal, forwarded.target)
      answerRefusal(response, refusal)
    }
    const upstream = await openRequest(forwarded, undefined)
    if ('reason' in upstream) return refuseIt(upstream)
    if (response.destroyed) return void upstream.destroy()
    const mask = maskFor(forwarded)
    response.once('close', () => upstream.destroy())
    upstream.once('response', (answer) => {
      response.shouldKeepAlive &&= forwarded.request.complete
      try {
        response.writeHead(
          answer.statusCode!,
          answer.statusMessage,
          downstreamHeaders(answer.rawHeaders, mask.maskText),
        )
      } catch {
        // Node reads statuses and reasons that it does not write.
        response.statusMessage = ''
        upstream.destroy()
        return refuseIt(failed(forwarded.target))
      }
      response.flushHeaders()
      const stages = forwarded.rules.credentialsOf(forwarded.target).length > 0 ? [mask.createStream()] : []
      // A truncated response destroys the workload's connection too, so that it is not taken for complete.
      pipeline([answer, ...stages, response], () => upstream.destroy())
    })
    upstream.on('error', () => {
      if (!response.headersSent && !response.destroyed) refuseIt(failed(forwarded.target))
    })
    forwarded.request.pipe(upstream)
  }

  async function forwardUpgrade(forwarded: ForwardedRequest, client: Socket, head: Buffer): Promise<void> {
    const refuseIt = (refusal: Refusal): void => {
      deps.onRefusal(refusal, forwarded.target)
      endWith(client, rawRefusal(refusal))
    }
    client.on('error', () => client.destroy())
    const upstream = await openRequest(forwarded, forwarded.request.headers.upgrade ?? 'websocket')
    if ('reason' in upstream) return refuseIt(upstream)
    if (client.destroyed) return void upstream.destroy()
    const mask = maskFor(forwarded)
    let isAnswered = false
    client.once('close', () => upstream.destroy())
    upstream.once('upgrade', (answer, socket, rest) => {
      isAnswered = true
      const protocol = ['Connection', 'Upgrade', 'Upgrade', answer.headers.upgrade ?? 'websocket']
      client.write(rawHead(answer, [...downstreamHeaders(answer.rawHeaders, mask.maskText), ...protocol]), 'latin1')
      if (rest.length > 0) socket.unshift(rest)
      if (head.length > 0) client.unshift(head)
      joinStreams(client, socket)
    })
    upstream.once('response', (answer) => {
      isAnswered = true
      const lines = downstreamHeaders(answer.rawHeaders, mask.maskText)
      client.write(rawHead(answer, [...lines, 'Connection', 'close']), 'latin1')
      pipeline(answer, mask.createStream(), client, () => client.destroy())
    })
    upstream.on('error', () => {
      if (isAnswered || client.destroyed) client.destroy()
      else refuseIt(failed(forwarded.target))
    })
    upstream.end()
  }

  async function openRequest(
    forwarded: ForwardedRequest,
    upgrade: string | undefined,
  ): Promise<ClientRequest | Refusal> {
    const { request, target, scheme, path, rules } = forwarded
    // TRACE would have the upstream echo the request, including credentials.
    if (request.method === 'TRACE') return refuse('bad-request', 'TRACE is not forwarded.')
    const opened = await (scheme === 'https'
      ? deps.connector.openTls(target, rules)
      : deps.connector.open(target, rules))
    if (opened.refusal !== undefined) return opened.refusal
    const { socket } = opened
    return httpRequest({
      createConnection: () => socket,
      method: request.method!,
      path,
      maxHeaderSize: deps.headerBytesMax,
      headers: upstreamHeaders({
        raw: request.rawHeaders,
        target,
        scheme,
        credentials: rules.credentialsOf(target),
        isChunked: request.headers['transfer-encoding'] !== undefined,
        ...(upgrade === undefined ? {} : { upgrade }),
      }),
    })
  }

  return { forward, forwardUpgrade }
}

const maskFor = ({ rules, target }: ForwardedRequest) =>
  createSecretMask(rules.credentialsOf(target).map(({ value }) => value))

const failed = (target: Target): Refusal =>
  refuse('upstream-failed', `${targetName(target)} closed the connection or did not answer in HTTP.`)

export function answerRefusal(response: ServerResponse, refusal: Refusal): void {
  if (response.destroyed || response.headersSent) return
  response.shouldKeepAlive = false
  response.writeHead(refusal.status, refusalHeaders(refusal))
  response.end(refusalBody(refusal))
}

function rawHead(answer: IncomingMessage, headers: readonly string[]): string {
  const lines = headers.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${headers[index + 1]}\r\n`] : []))
  return `HTTP/1.1 ${answer.statusCode} ${answer.statusMessage ?? ''}\r\n${lines.join('')}\r\n`
}
