import { describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import type { ErrorCode } from '../contract/error-codes.ts'
import { callError, envelopeError, sealErrorToHttp } from './seal-errors.ts'

const answered = (code: ErrorCode, details: Record<string, unknown> = {}) => {
  const { status, headers, json } = sealErrorToHttp(callError({ code, message: 'Why.', details }, 'fs.read'), 7)
  return { status, headers, body: JSON.parse(json) as { id: unknown; error: { code: number; data: unknown } } }
}
const shortly = (code: ErrorCode, details?: Record<string, unknown>) => {
  const { status, headers, body } = answered(code, details)
  return [status, body.error.code, headers['x-castellan-error-code']]
}

describe('a refused call', () => {
  it.each([
    ['ERR_INVALID_INPUT', { field: 'path', constraint: 'required' }, [422, -32602, 'INVALID_ARGUMENTS']],
    ['ERR_INVALID_INPUT', { violation: 'ExecTimeoutCeilingExceeded' }, [403, -32000, 'LIMIT_EXCEEDED']],
    ['ERR_POLICY_VIOLATION', { violation: 'ToolNotAllowed' }, [403, -32000, 'TOOL_NOT_ALLOWED']],
    ['ERR_POLICY_VIOLATION', { violation: 'ToolExplicitlyDenied' }, [403, -32000, 'TOOL_DENIED']],
    ['ERR_POLICY_VIOLATION', { violation: 'PathOutsideBoundary' }, [403, -32000, 'PATH_NOT_ALLOWED']],
    ['ERR_POLICY_VIOLATION', { violation: 'PathTraversalAttempt' }, [403, -32000, 'PATH_TRAVERSAL']],
    ['ERR_POLICY_VIOLATION', { violation: 'DomainNotAllowed' }, [403, -32000, 'DOMAIN_NOT_ALLOWED']],
    ['ERR_POLICY_VIOLATION', { violation: 'CommandNotAllowed' }, [403, -32000, 'COMMAND_NOT_ALLOWED']],
    ['ERR_POLICY_VIOLATION', { violation: 'SubcommandNotAllowed' }, [403, -32000, 'SUBCOMMAND_NOT_ALLOWED']],
    ['ERR_POLICY_VIOLATION', { violation: 'OutputSizeLimitExceeded' }, [403, -32000, 'LIMIT_EXCEEDED']],
    ['ERR_RATE_LIMITED', { violation: 'ConcurrentExecLimitExceeded' }, [403, -32000, 'LIMIT_EXCEEDED']],
    ['ERR_RATE_LIMITED', { violation: 'RateLimitExceeded' }, [429, -32000, 'RATE_LIMIT_EXCEEDED']],
    ['ERR_RATE_LIMITED', {}, [429, -32000, 'RATE_LIMIT_EXCEEDED']],
    ['ERR_MODE_REFUSED', {}, [403, -32000, 'MODE_REFUSED']],
    ['ERR_PERMISSION_DENIED', {}, [403, -32000, 'TOOL_NOT_ALLOWED']],
    ['ERR_TENANT_MISMATCH', {}, [403, -32000, 'TENANT_MISMATCH']],
    ['ERR_UNKNOWN_TOOL', {}, [404, -32601, 'NOT_FOUND']],
    ['ERR_TASK_NOT_FOUND', {}, [404, -32000, 'NOT_FOUND']],
    ['ERR_ALREADY_EXISTS', {}, [409, -32000, 'CONFLICT']],
    ['ERR_QUOTA_EXCEEDED', {}, [422, -32000, 'QUOTA_EXCEEDED']],
    ['ERR_WEB_FAILED', {}, [502, -32603, 'UPSTREAM_UNAVAILABLE']],
    ['ERR_BUSY', {}, [503, -32603, 'SERVICE_UNAVAILABLE']],
    ['ERR_INTERNAL', {}, [500, -32603, 'INTERNAL_ERROR']],
  ] as const)('%s with %j is told as the document does', (code, details, expected) => {
    expect(shortly(code, details)).toEqual(expected)
    expect(answered(code, details).body).toMatchObject({ id: 7, error: { data: null } })
  })

  it('says when to try again, where waiting helps', () => {
    const limited = answered('ERR_RATE_LIMITED', { violation: 'RateLimitExceeded', retry_after_ms: 1_500 })
    expect(limited.headers).toMatchObject({
      'retry-after': '2',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': '2',
    })
    const held = answered('ERR_RATE_LIMITED', { violation: 'ConcurrentExecLimitExceeded', retry_after_ms: 1_000 })
    expect(held.headers).toMatchObject({ 'retry-after': '1' })
    expect(held.headers).not.toHaveProperty('x-ratelimit-remaining')
  })
})

describe('a refused envelope', () => {
  it.each([
    [new AppError('ERR_INVALID_INPUT', 'Why.'), [400, -32600, 'MALFORMED_ENVELOPE']],
    [new AppError('ERR_UNAUTHENTICATED', 'Why.', { reason: 'SESSION_EXPIRED' }), [401, -32000, 'SESSION_EXPIRED']],
    [new AppError('ERR_PERMISSION_DENIED', 'Why.', { reason: 'SESSION_INACTIVE' }), [403, -32000, 'SESSION_INACTIVE']],
    [new AppError('ERR_MODE_REFUSED', 'Why.'), [403, -32000, 'MODE_REFUSED']],
    [new AppError('ERR_STORE_UNAVAILABLE', 'Why.'), [503, -32603, 'SERVICE_UNAVAILABLE']],
    [new Error('Why.'), [500, -32603, 'INTERNAL_ERROR']],
  ])('%s is told as the document does', (error, expected) => {
    const { status, headers, json } = sealErrorToHttp(envelopeError(error), null)
    const body = JSON.parse(json) as { error: { code: number } }
    expect([status, body.error.code, headers['x-castellan-error-code']]).toEqual(expected)
    if (!(error instanceof AppError)) expect(json).not.toContain('Why.')
  })
})
