import type { CallRules, ToolDefinition } from './define-tool.ts'

type Ruled = Pick<ToolDefinition, 'permission' | 'effect' | 'rate' | 'actions'>

const withOwn = ({ permission, effect, rate }: Ruled, differing: Partial<CallRules>): CallRules => ({
  permission,
  effect,
  rate,
  ...differing,
})

/** The rules for a call with these arguments, which nobody has looked at yet. */
export function rulesFor(definition: Ruled, args: unknown): CallRules {
  const { actions } = definition
  if (actions === undefined || typeof args !== 'object' || args === null) return definition
  const { action } = args as { action?: unknown }
  return typeof action === 'string' && Object.hasOwn(actions, action)
    ? withOwn(definition, actions[action]!)
    : definition
}

/** Every set of rules that some call of the tool is judged by. */
export const allRulesOf = (definition: Ruled): readonly CallRules[] => [
  definition,
  ...Object.values(definition.actions ?? {}).map((differing) => withOwn(definition, differing)),
]
