import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import type { ToolAnswer, ToolCaller, ToolHost } from '../tools/runtime/tool-host.ts'
import { readJsonBody } from './read-json-body.ts'
import type { RequestView } from './request-view.ts'
import { sendError, sendJson } from './send.ts'
import { successStatus } from './success-status.ts'
import { failureToHttp, toHttpError } from './to-http-error.ts'

/** Tools without MCP: the body is the arguments, the answer is the tool's own JSON, and the status says how it went. */
export type ToolRequest = Readonly<{
  req: IncomingMessage
  res: ServerResponse
  principal: Principal
  view: RequestView
}>

export type ToolRoutes = Readonly<{
  list(request: ToolRequest): void
  call(request: ToolRequest, encodedName: string): Promise<void>
  /** Cancels the calls under way and answers each with the error. */
  failAll(error: AppError): void
}>

export type ToolRoutesDeps = Readonly<{
  host: ToolHost
  catalog: Catalog
  bodyBytesMax: number
  logger: Logger
  random: Random
}>

const WARNING_CHARS_MAX = 2_048

export function createToolRoutes(deps: ToolRoutesDeps): ToolRoutes {
  const failures = new Set<(error: AppError) => void>()
  const inFlight = new Map<string, number>()

  function enter(principal: Principal): () => void {
    const who = `${principal.tenant}/${principal.keyId ?? principal.actor}`
    const count = inFlight.get(who) ?? 0
    if (count >= limits.callsInFlightPerConnectionMax) {
      throw new AppError('ERR_BUSY', 'Too many calls of yours are under way.', { retry_after_ms: 1_000 })
    }
    inFlight.set(who, count + 1)
    return () => {
      const left = inFlight.get(who)! - 1
      if (left === 0) inFlight.delete(who)
      else inFlight.set(who, left)
    }
  }

  async function run(request: ToolRequest, name: string): Promise<void> {
    const { req, res } = request
    const cancel = new AbortController()
    const fail = (error: AppError): void => {
      sendError(req, res, failureToHttp(error))
      cancel.abort(error)
    }
    const onClose = (): void => {
      if (!res.writableFinished) cancel.abort(new AppError('ERR_CANCELLED', 'The client disconnected.'))
    }
    res.once('close', onClose)
    failures.add(fail)
    try {
      const args = await readJsonBody(req, deps.bodyBytesMax)
      const answer = await deps.host.call(callerOf(request), name, args, { signal: cancel.signal })
      if (answer.failure !== undefined) sendError(req, res, failureToHttp(answer.failure))
      else sendJson(res, successStatus(deps.catalog.find(name)?.name ?? name), answer.json, warningHeader(answer))
    } finally {
      failures.delete(fail)
    }
  }

  return {
    list(request) {
      sendJson(request.res, 200, JSON.stringify({ tools: deps.host.list(callerOf(request)) }))
    },
    async call(request, encodedName) {
      const leave = enter(request.principal)
      try {
        await run(request, decodeName(encodedName))
      } catch (error) {
        sendError(request.req, request.res, toHttpError(error, deps))
      } finally {
        leave()
      }
    },
    failAll(error) {
      for (const fail of failures) fail(error)
    },
  }
}

const callerOf = ({ principal, view }: ToolRequest): ToolCaller => ({
  principal,
  door: 'rest',
  exposure: view.exposure,
  safeNames: view.safeNames ?? false,
})

function decodeName(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw new AppError('ERR_INVALID_INPUT', 'The name of the tool in the address is not percent-encoded correctly.', {
      field: 'name',
    })
  }
}

/** Remarks that MCP carries as extra text; the body here is the tool's answer and nothing else. */
function warningHeader({ content }: ToolAnswer): Record<string, string> {
  const texts = (content ?? [])
    .slice(1)
    .map((part) => part['text'])
    .filter((text) => typeof text === 'string')
  const warnings = texts.filter((text) => text.startsWith('Warning: ')).map((text) => text.slice('Warning: '.length))
  if (warnings.length === 0) return {}
  const encoded = encodeURI(warnings.join(' ').toWellFormed()).replaceAll('%20', ' ')
  return { 'castellan-warning': encoded.slice(0, WARNING_CHARS_MAX) }
}
