/**
 * What a rule said about one call. The log entry of the call has them in the order in which they were taken, so that a
 * reader can tell why it was let through, changed or refused.
 */
export type Decision = Readonly<{
  /** The stage of the pipeline in which it was taken. */
  stage: string
  verdict: 'allow' | 'deny' | 'require_approval' | 'trusted' | 'untrusted' | 'block' | 'sanitise'
  /** Where an entry is about several tools: the one that it is about. */
  tool?: string
  /** The rule, by the name or id under which its author keeps it. */
  policy?: string
  /** In the words of the register of errors, never in those of the call. */
  reason?: string
}>
