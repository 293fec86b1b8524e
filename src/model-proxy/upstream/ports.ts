import type { IncomingHttpHeaders } from 'node:http'

/** A request to an upstream. Headers are alternating names and values, without those of the connection. */
export type UpstreamRequest = Readonly<{
  method: 'GET' | 'POST'
  path: string
  headers: readonly string[]
  body?: Buffer
}>

/** Of one request under way. After `abort` the handler hears no more of it that it would have to act on. */
export type UpstreamController = Readonly<{ pause(): void; resume(): void; abort(reason: Error): void }>

/** A subset of what undici calls, so that one handler serves both. */
export type UpstreamHandler = Readonly<{
  /** Called before the first byte is sent. */
  onRequestStart(controller: UpstreamController): void
  onResponseStart(controller: UpstreamController, status: number, headers: IncomingHttpHeaders): void
  /** The bytes may change after the call and its next ticks, so a handler that retains them copies them. */
  onResponseData(controller: UpstreamController, chunk: Buffer): void
  onResponseEnd(controller: UpstreamController): void
  /** Without a controller if nothing was sent. */
  onResponseError(controller: UpstreamController | undefined, error: Error): void
}>

/** Connections to one upstream. */
export type UpstreamPool = Readonly<{
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): void
  destroy(): Promise<void>
}>

export type UpstreamBounds = Readonly<{
  connections: number
  connectTimeoutMs: number
  /** Until an answer begins, and between two parts of it. */
  answerTimeoutMs: number
  idleTimeoutMs: number
  keepAliveMs: number
}>

/** The upstream was too slow. */
export class UpstreamTimeout extends Error {}
