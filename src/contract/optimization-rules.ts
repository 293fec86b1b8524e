import type { UsageSubject } from './usage-limits.ts'

export const ruleEntities = ['organization', 'team', 'agent'] as const
/** For whom a rule is. `agent` is also for model proxies. */
export type RuleEntity = (typeof ruleEntities)[number]

/** A request to a model, as far as rules look at it. */
export type RequestShape = Readonly<{
  /** The names of the provider. */
  providers: readonly string[]
  model: string
  /** By its size. */
  tokens: number
  hasTools: boolean
}>

export type RuleName = Readonly<{ id: string; name: string }>
/** The model of the same provider that is used instead, and the rule that says so. */
export type ChosenModel = Readonly<{ model: string; rule: RuleName }>

/** The rules of organisations that have cheaper models used. */
export type OptimizationRules = Readonly<{
  /** Rules for the agent or proxy come first, then those for a team, then those for the organisation; of each the oldest that matches. */
  choose(subject: UsageSubject, request: RequestShape): ChosenModel | undefined | Promise<ChosenModel | undefined>
}>

/** Tokens by the size of what is sent: counting needs the tokeniser of each model. */
export const tokensBySize = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)
const BYTES_PER_TOKEN = 4

/** A name that ends in `*` stands for all that begin so. */
export const isModelNamed = (name: string, model: string): boolean =>
  name.endsWith('*') ? model.startsWith(name.slice(0, -1)) : name === model
