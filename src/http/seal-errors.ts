import { AppError } from '../contract/app-error.ts'
import { type ErrorCode, errorCodes } from '../contract/error-codes.ts'
import type { ToolFailure } from '../tools/runtime/tool-host.ts'
import type { HttpError } from './to-http-error.ts'

/** SEAL's error format: a status, a JSON-RPC error whose `data` is null, and in a header the newer error code. */
type SealError = Readonly<{ status: number; rpcCode: number; name: string; message: string; retryAfterMs?: number }>

export const ERROR_NAME_HEADER = 'x-castellan-error-code'
const rpc = { invalidRequest: -32600, noMethod: -32601, invalidParams: -32602, internal: -32603, server: -32000 }
const INTERNAL = 'Something failed inside the server. Try again later.'

/** Names of violations, of the policy and of the file layer. */
const violationNames: Readonly<Record<string, string>> = {
  ToolNotAllowed: 'TOOL_NOT_ALLOWED',
  ToolExplicitlyDenied: 'TOOL_DENIED',
  PathOutsideBoundary: 'PATH_NOT_ALLOWED',
  PathTraversalAttempt: 'PATH_TRAVERSAL',
  DomainNotAllowed: 'DOMAIN_NOT_ALLOWED',
  CommandNotAllowed: 'COMMAND_NOT_ALLOWED',
  SubcommandNotAllowed: 'SUBCOMMAND_NOT_ALLOWED',
  MissingRequiredArgument: 'POLICY_ARGUMENT_REQUIRED',
  ConcurrentExecLimitExceeded: 'LIMIT_EXCEEDED',
  OutputSizeLimitExceeded: 'LIMIT_EXCEEDED',
  ExecTimeoutCeilingExceeded: 'LIMIT_EXCEEDED',
  TimeoutExceeded: 'LIMIT_EXCEEDED',
}

/** The error of an envelope, before its call is known. */
export function envelopeError(error: unknown): SealError {
  if (!(error instanceof AppError)) return internal(INTERNAL)
  const { code, message, details } = error
  const name = typeof details['reason'] === 'string' ? details['reason'] : undefined
  const { kind, httpStatus } = errorCodes[code]
  if (kind === 'denied') {
    return { status: httpStatus, rpcCode: rpc.server, name: name ?? codeName(code), message }
  }
  if (code === 'ERR_TOO_LARGE' || code === 'ERR_MEDIA_TYPE_UNSUPPORTED') {
    return { status: httpStatus, rpcCode: rpc.invalidRequest, name: 'MALFORMED_ENVELOPE', message }
  }
  if (kind === 'input') return { status: 400, rpcCode: rpc.invalidRequest, name: 'MALFORMED_ENVELOPE', message }
  return kind === 'unavailable' ? unavailable(error) : internal(INTERNAL)
}

/** The error of a call. */
export function callError(failure: ToolFailure, tool: string): SealError {
  const { code, message, details } = failure
  const violation = violationNames[String(details['violation'])]
  const { kind, httpStatus } = errorCodes[code]
  if (code === 'ERR_UNKNOWN_TOOL') return { status: 404, rpcCode: rpc.noMethod, name: 'NOT_FOUND', message }
  if (code === 'ERR_QUOTA_EXCEEDED') return { status: 422, rpcCode: rpc.server, name: 'QUOTA_EXCEEDED', message }
  if (code === 'ERR_RATE_LIMITED') {
    const retryAfterMs = Number(details['retry_after_ms'] ?? 1_000)
    // Too many calls at once is a limit of the context; only a rate limit has a time.
    if (violation !== undefined) return { status: 403, rpcCode: rpc.server, name: violation, message, retryAfterMs }
    return { status: 429, rpcCode: rpc.server, name: 'RATE_LIMIT_EXCEEDED', message, retryAfterMs }
  }
  switch (kind) {
    case 'input':
      if (violation !== undefined) return { status: 403, rpcCode: rpc.server, name: violation, message }
      return {
        status: 422,
        rpcCode: rpc.invalidParams,
        name: 'INVALID_ARGUMENTS',
        message: argumentText(failure, tool),
      }
    case 'denied': {
      const reason = typeof details['reason'] === 'string' ? details['reason'] : undefined
      return { status: 403, rpcCode: rpc.server, name: violation ?? reason ?? deniedName(code), message }
    }
    case 'not-found':
      return { status: 404, rpcCode: rpc.server, name: 'NOT_FOUND', message }
    case 'conflict':
      return { status: 409, rpcCode: rpc.server, name: violation ?? 'CONFLICT', message }
    case 'unavailable':
      return unavailable(failure)
    case 'cancelled':
      return { status: httpStatus, rpcCode: rpc.server, name: 'CANCELLED', message }
    default:
      return internal(message)
  }
}

/** The message for a missing argument is the documented one, for every tool. */
const argumentText = ({ message, details }: ToolFailure, tool: string): string =>
  details['constraint'] === 'required'
    ? `Invalid tool arguments: required field '${String(details['field'])}' is missing or null for tool '${tool}'`
    : message

function deniedName(code: ErrorCode): string {
  if (code === 'ERR_PERMISSION_DENIED') return 'TOOL_NOT_ALLOWED'
  return code === 'ERR_POLICY_VIOLATION' ? 'TOOL_DENIED' : codeName(code)
}

/** A code without a newer name keeps its own. */
export const codeName = (code: ErrorCode): string => code.slice('ERR_'.length)

const internal = (message: string): SealError => ({
  status: 500,
  rpcCode: rpc.internal,
  name: 'INTERNAL_ERROR',
  message,
})

function unavailable({ code, message, details }: Pick<ToolFailure, 'code' | 'message' | 'details'>): SealError {
  const retryAfterMs = Number(details['retry_after_ms'] ?? 5_000)
  return errorCodes[code].httpStatus === 502
    ? { status: 502, rpcCode: rpc.internal, name: 'UPSTREAM_UNAVAILABLE', message, retryAfterMs }
    : { status: 503, rpcCode: rpc.internal, name: 'SERVICE_UNAVAILABLE', message, retryAfterMs }
}

export function sealErrorToHttp(error: SealError, id: string | number | null): HttpError {
  const { status, rpcCode, name, message, retryAfterMs } = error
  const seconds = retryAfterMs === undefined ? undefined : String(Math.max(1, Math.ceil(retryAfterMs / 1000)))
  return {
    status,
    headers: {
      [ERROR_NAME_HEADER]: name,
      ...(status === 401 ? { 'www-authenticate': 'SEAL realm="castellan"' } : {}),
      ...(seconds === undefined ? {} : { 'retry-after': seconds }),
      ...(status === 429 ? { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': seconds! } : {}),
    },
    json: JSON.stringify({ jsonrpc: '2.0', id, error: { code: rpcCode, message, data: null } }),
  }
}
