import { AppError } from '../contract/app-error.ts'
import type { Principal } from '../contract/principal.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import type { ToolCaller, ToolFailure, ToolHost } from '../tools/runtime/tool-host.ts'
import type { Authenticate } from './authenticate.ts'
import { sendJson } from './exchange/send-text.ts'
import { readJsonBody, readJsonText } from './read-json-body.ts'
import { ReadQuery } from './read-query.ts'
import type { Exchange, PatternRoute } from './route-table.ts'
import { callError, codeName, ERROR_NAME_HEADER, envelopeError, sealErrorToHttp } from './seal-errors.ts'
import { sendError } from './send.ts'
import type { ServeCall } from './serve-call.ts'
import { failureToHttp, type HttpError, toHttpError } from './to-http-error.ts'
import { warningHeader } from './tool-routes.ts'

/** Verifies signed calls, through the domain. */
export type SealGate = Readonly<{
  read(body: string): Readonly<{
    id: string | number | null
    open(): Promise<
      Readonly<{
        principal: Principal
        call: Readonly<{ name: string; args: Readonly<Record<string, unknown>> }>
      }>
    >
  }>
  preview(principal: Principal, context: string | undefined): Principal
}>

type SealRoutesDeps = Readonly<{
  /** Undefined if no sessions can be stored. */
  seal(): Promise<SealGate | undefined>
  host: ToolHost
  catalog: Catalog
  serveCall: ServeCall
  authenticate: Authenticate
  bodyBytesMax: number
  logger: Logger
  random: Random
}>

const ATTEST = '/v1/seal/attest'
const INVOKE = '/v1/seal/invoke'
const TOOLS = '/v1/seal/tools'
const CONTEXT_HEADER = 'x-zaru-security-context'

/**
 * External calls that carry their own proof. Attestation is an ordinary tool, so it is permitted, limited and recorded; a signed
 * call takes the path of every call, as a principal with the session's security context.
 */
export function createSealRoutes(deps: SealRoutesDeps): readonly PatternRoute[] {
  const { serveCall, host } = deps

  async function gate(): Promise<SealGate> {
    const opened = await deps.seal()
    if (opened === undefined) {
      throw new AppError('ERR_MODE_REFUSED', 'SEAL sessions do not work in mode MINIMAL, which has no store.')
    }
    return opened
  }

  const attest = (exchange: Exchange): Promise<void> =>
    serveCall(
      exchange,
      async (signal, admit) => {
        const { req, res } = exchange
        const principal = await deps.authenticate(req)
        admit(principal)
        const args = attestArguments(await readJsonBody(req, deps.bodyBytesMax))
        const answer = await host.call(sealCaller(principal), 'seal_session_create', args, { signal })
        if (answer.failure !== undefined) {
          sendError(req, res, named(failureToHttp(answer.failure), answer.failure))
          return
        }
        const { security_token, expires_at, session_id } = answer.output as Record<string, string>
        sendJson(res, 200, JSON.stringify({ status: 'success', security_token, expires_at, session_id }))
      },
      (error) => namedError(error, deps),
    )

  async function invoke({ req, res }: Exchange): Promise<void> {
    let id: string | number | null = null
    await serveCall(
      { req, res },
      async (signal, admit) => {
        const taken = (await gate()).read(await readJsonText(req, deps.bodyBytesMax))
        id = taken.id
        const { principal, call } = await taken.open()
        admit(principal)
        const answer = await host.call(sealCaller(principal), call.name, call.args, { signal })
        if (answer.failure !== undefined) {
          const tool = deps.catalog.find(call.name)?.name ?? call.name
          sendError(req, res, sealErrorToHttp(callError(answer.failure, tool), id))
          return
        }
        const result = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${answer.json}}`
        sendJson(res, 200, result, warningHeader(answer))
      },
      (error) => {
        // Logs foreign errors, under a reference.
        if (!(error instanceof AppError)) toHttpError(error, deps)
        return sealErrorToHttp(envelopeError(error), id)
      },
    )
  }

  async function listed({ req, url }: Exchange): Promise<string> {
    const header = req.headers[CONTEXT_HEADER]
    const query = new ReadQuery(url)
    const securityContext = query.get('security_context') ?? (typeof header === 'string' ? header : undefined)
    query.requireAllRead()
    const known = await deps.authenticate(req)
    const principal = (await gate()).preview(known, securityContext)
    return JSON.stringify({
      protocol: 'seal/v1',
      attestation_endpoint: ATTEST,
      invoke_endpoint: INVOKE,
      security_context: principal.securityContexts?.[0]?.name,
      tools: (await host.list(sealCaller(principal))).map(({ name, description, inputSchema }) => ({
        name,
        description,
        inputSchema,
      })),
    })
  }

  const tools = (exchange: Exchange): Promise<void> =>
    listed(exchange).then(
      (json) => sendJson(exchange.res, 200, json),
      (error: unknown) => sendError(exchange.req, exchange.res, namedError(error, deps)),
    )

  return [
    { method: 'POST', path: ATTEST, serve: attest },
    { method: 'POST', path: INVOKE, serve: invoke },
    { method: 'GET', path: TOOLS, serve: tools },
  ]
}

const sealCaller = (principal: Principal): ToolCaller => ({
  principal,
  transport: 'seal',
  exposure: 'full',
  safeNames: false,
})

/** The tool's parameters, under the names that clients use. Claims of identity other than the key are ignored. */
const attestNames: Readonly<Record<string, readonly string[]>> = {
  public_key: ['public_key', 'public_key_pem', 'agent_public_key'],
  security_context: ['security_context'],
  zaru_tier: ['zaru_tier'],
  agent_id: ['agent_id'],
  execution_id: ['execution_id'],
  workload_id: ['workload_id', 'container_id'],
  task_summary: ['task_summary'],
  tenant_id: ['tenant_id'],
}

function attestArguments(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body
  const input = body as Record<string, unknown>
  const args: Record<string, unknown> = {}
  for (const [parameter, names] of Object.entries(attestNames)) {
    const name = names.find((candidate) => input[candidate] !== undefined && input[candidate] !== null)
    if (name !== undefined) args[parameter] = input[name]
  }
  return args
}

/** The answer of every other route, with the newer error code. */
const named = (error: HttpError, { code, details }: Pick<ToolFailure, 'code' | 'details'>): HttpError => {
  const name = typeof details['reason'] === 'string' ? details['reason'] : codeName(code)
  return { ...error, headers: { ...error.headers, [ERROR_NAME_HEADER]: name } }
}

const namedError = (error: unknown, deps: SealRoutesDeps): HttpError =>
  named(toHttpError(error, deps), error instanceof AppError ? error : { code: 'ERR_INTERNAL', details: {} })
