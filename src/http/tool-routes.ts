import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import type { Principal } from '../contract/principal.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import type { ToolAnswer, ToolCaller, ToolHost } from '../tools/runtime/tool-host.ts'
import { sendJson } from './exchange/send-text.ts'
import { readJsonBody } from './read-json-body.ts'
import type { RequestView } from './request-view.ts'
import { sendError } from './send.ts'
import type { ServeCall } from './serve-call.ts'
import { successStatus } from './success-status.ts'
import { failureToHttp } from './to-http-error.ts'

/** Tools without MCP: the body is the arguments, the answer is the tool's own JSON, and the status shows the outcome. */
type ToolRequest = Readonly<{
  req: IncomingMessage
  res: ServerResponse
  principal: Principal
  view: RequestView
  /** The address under which the client knows this server. */
  origin: string
}>

export type ToolRoutes = Readonly<{
  list(request: ToolRequest): Promise<void>
  call(request: ToolRequest, encodedName: string): Promise<void>
}>

type ToolRoutesDeps = Readonly<{
  host: ToolHost
  catalog: Catalog
  serveCall: ServeCall
  bodyBytesMax: number
}>

const WARNING_CHARS_MAX = 2_048

export function createToolRoutes(deps: ToolRoutesDeps): ToolRoutes {
  return {
    async list(request) {
      sendJson(request.res, 200, JSON.stringify({ tools: await deps.host.list(callerOf(request)) }))
    },
    call: (request, encodedName) =>
      deps.serveCall(request, async (signal, admit) => {
        const { req, res } = request
        admit(request.principal)
        const name = decodeName(encodedName)
        const args = await readJsonBody(req, deps.bodyBytesMax)
        const answer = await deps.host.call(callerOf(request), name, args, { signal })
        if (answer.failure !== undefined) sendError(req, res, failureToHttp(answer.failure))
        else sendJson(res, successStatus(deps.catalog.find(name)?.name ?? name), answer.json, warningHeader(answer))
      }),
  }
}

const callerOf = ({ principal, view, origin }: ToolRequest): ToolCaller => ({
  origin,
  principal,
  transport: 'rest',
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

/** Warnings, which MCP puts into the answer; the body here is only the tool's answer. */
export function warningHeader({ warnings = [] }: ToolAnswer): Record<string, string> {
  if (warnings.length === 0) return {}
  const encoded = encodeURI(warnings.join(' ').toWellFormed()).replaceAll('%20', ' ')
  return { 'castellan-warning': encoded.slice(0, WARNING_CHARS_MAX) }
}
