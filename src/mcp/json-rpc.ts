/** Protocol errors as text. It imports nothing, because processes that only forward messages use it too. */
export type RequestId = string | number

export const jsonRpcCodes = {
  parseError: -32_700,
  invalidRequest: -32_600,
  invalidParams: -32_602,
  internalError: -32_603,
  /** The first code that the specification leaves to servers. */
  serverError: -32_000,
} as const

export function errorResponse(id: RequestId | null, code: number, message: string, data?: unknown): string {
  const error = data === undefined ? { code, message } : { code, message, data }
  return `{"jsonrpc":"2.0","id":${id === null ? 'null' : idText(id)},"error":${JSON.stringify(error)}}`
}

export const idText = (id: RequestId): string => (typeof id === 'number' ? String(id) : JSON.stringify(id))
