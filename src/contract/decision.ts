/**
 * The verdict of a rule on one call. The log entry of the call lists its decisions in order, so that a reader can tell why the
 * call was allowed, changed or refused.
 */
export type Decision = Readonly<{
  /** The pipeline stage that took the decision. */
  stage: string
  verdict: 'allow' | 'deny' | 'require_approval' | 'trusted' | 'untrusted' | 'block' | 'sanitise'
  /** For an entry about several tools: the tool of this decision. */
  tool?: string
  /** The name or id of the rule. */
  policy?: string
  /** A fixed text of ours, never text from the call. */
  reason?: string
}>
