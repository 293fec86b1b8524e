/** What policies are written with. */
export const operators = ['equal', 'notEqual', 'contains', 'notContains', 'startsWith', 'endsWith', 'regex'] as const
export type Operator = (typeof operators)[number]

export const invocationActions = [
  'allow_when_context_is_untrusted',
  'block_when_context_is_untrusted',
  'block_always',
  'require_approval',
] as const
export type InvocationAction = (typeof invocationActions)[number]

export const resultActions = ['block_always', 'mark_as_trusted', 'mark_as_untrusted', 'sanitize_with_dual_llm'] as const
export type ResultAction = (typeof resultActions)[number]

/** Of the values that a path with wildcards finds: all of them (and at least one), any, or none. */
export const quantifiers = ['all', 'any', 'none'] as const
export type Quantifier = (typeof quantifiers)[number]

/** The type of the compared value. Without it the value is a string, and only strings are equal to it. */
export const valueTypes = ['string', 'number', 'boolean'] as const
type ValueType = (typeof valueTypes)[number]

export type Condition = Readonly<{
  key: string
  operator: Operator
  value: string
  quantifier?: Quantifier | undefined
  type?: ValueType | undefined
}>
