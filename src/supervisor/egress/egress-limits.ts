export type EgressLimits = Readonly<{
  connectionsMax: number
  connectionsPerAddressMax: number
  /** Requests on one connection that are not answered yet; each has a connection of its own upstream. */
  pendingRequestsMax: number
  /** A connection on which nothing moves for this long, in either direction, is closed. */
  idleMs: number
  headerBytesMax: number
  /** From the first byte of a request's head to its end. */
  headMs: number
  /** For the first bytes inside a tunnel, and for the TLS handshake with a workload. */
  helloMs: number
  /** For resolving and connecting together, and again for the TLS handshake with an upstream. */
  connectMs: number
  /** Certificates that are kept for hosts with credentials. */
  leavesMax: number
}>

export const defaultEgressLimits: EgressLimits = {
  connectionsMax: 2048,
  connectionsPerAddressMax: 256,
  pendingRequestsMax: 16,
  idleMs: 600_000,
  headerBytesMax: 32_768,
  headMs: 30_000,
  helloMs: 15_000,
  connectMs: 15_000,
  leavesMax: 256,
}
