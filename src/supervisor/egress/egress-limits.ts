export type EgressLimits = Readonly<{
  connectionsMax: number
  connectionsPerAddressMax: number
  /** Requests of one connection without a response; each has an upstream connection of its own. */
  pendingRequestsMax: number
  /** A connection that is idle in both directions for this long is closed. */
  idleMs: number
  headerBytesMax: number
  /** From the first byte of a request's headers to their end. */
  headMs: number
  /** For the first bytes inside a tunnel, and for the TLS handshake with a workload. */
  helloMs: number
  /** For resolving and connecting together, and then for the TLS handshake with an upstream. */
  connectMs: number
  /** Cached certificates for hosts with credentials. */
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
