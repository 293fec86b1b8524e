/** Why the proxy refused a request. Also the labels of its counters. */
export type RefusalReason =
  | 'no-policy'
  | 'bad-request'
  | 'host-not-allowed'
  | 'private-address'
  | 'name-mismatch'
  | 'encrypted-name'
  | 'not-http'
  | 'too-many-connections'
  | 'unresolved'
  | 'unreachable'
  | 'upstream-failed'
  | 'no-authority'

/** The response to the workload. `message` is one line of fixed text and the target's name. */
export type Refusal = Readonly<{ reason: RefusalReason; status: number; message: string }>

const statusOf: Readonly<Record<RefusalReason, number>> = {
  'no-policy': 403,
  'bad-request': 400,
  'host-not-allowed': 403,
  'private-address': 403,
  'name-mismatch': 421,
  'encrypted-name': 403,
  'not-http': 403,
  'too-many-connections': 503,
  unresolved: 502,
  unreachable: 502,
  'upstream-failed': 502,
  'no-authority': 502,
}

export const refuse = (reason: RefusalReason, message: string): Refusal => ({
  reason,
  status: statusOf[reason],
  message,
})

const phrases: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  403: 'Forbidden',
  421: 'Misdirected Request',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
}

const bodyOf = ({ message }: Refusal): string => `Egress proxy: ${message}\n`

export const refusalHeaders = (refusal: Refusal): Record<string, string | number> => ({
  'Content-Type': 'text/plain; charset=utf-8',
  'Content-Length': Buffer.byteLength(bodyOf(refusal)),
  'X-Castellan-Egress': refusal.reason,
  Connection: 'close',
})

export const refusalBody = bodyOf

/** For a socket that no HTTP server handles any more. */
export function rawRefusal(refusal: Refusal): string {
  const headers = Object.entries(refusalHeaders(refusal)).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${refusal.status} ${phrases[refusal.status] ?? 'Refused'}\r\n${headers.join('')}\r\n${bodyOf(refusal)}`
}
