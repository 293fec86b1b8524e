/** What bounds policies, the trust of contexts, and approvals. */
export const policyLimits = {
  /** Policies of a tenant of both kinds, the conditions of one, and what a condition may say. */
  toolPoliciesMax: 5_000,
  policyConditionsMax: 32,
  policyKeyCharsMax: 512,
  policyValueCharsMax: 4_096,
  policyNoteCharsMax: 2_000,
  policyPathStepsMax: 32,
  /** Size of a compiled regular expression. */
  policyPatternSizeMax: 10_000,
  /** Values that a path with wildcards looks at; more of them decide as the careful answer does. */
  policyValuesMax: 10_000,
  /** Characters of one value that a pattern looks at. */
  policyTextCharsMax: 1_000_000,
  /** How often what other processes changed is looked for. */
  policyVersionPollMs: 1_000,
  /** Contexts whose trust is remembered in memory. */
  trustCacheMax: 50_000,
  /** Arguments that a refusal repeats, as JSON. */
  deniedInputBytesMax: 4_096,
} as const
