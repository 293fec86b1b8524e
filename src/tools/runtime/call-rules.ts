import { isPermitted, type Permission } from '../../contract/permissions.ts'
import type { Principal } from '../../contract/principal.ts'
import type { CallRules, ToolDefinition } from './define-tool.ts'

type Ruled = Pick<ToolDefinition, 'permission' | 'alsoNeeds' | 'effect' | 'rate' | 'whenDiskFull' | 'actions'>

const withOwn = (
  { permission, alsoNeeds, effect, rate, whenDiskFull }: Ruled,
  differing: Partial<CallRules>,
): CallRules => ({
  permission,
  ...(alsoNeeds === undefined ? {} : { alsoNeeds }),
  effect,
  rate,
  ...(whenDiskFull === undefined ? {} : { whenDiskFull }),
  ...differing,
})

/** The rules for a call with these arguments, which are not validated yet. */
export function rulesFor(definition: Ruled, args: unknown): CallRules {
  const { actions } = definition
  if (actions === undefined || typeof args !== 'object' || args === null) return definition
  const { action } = args as { action?: unknown }
  return typeof action === 'string' && Object.hasOwn(actions, action)
    ? withOwn(definition, actions[action]!)
    : definition
}

/** Every set of rules that applies to some call of the tool. */
export const allRulesOf = (definition: Ruled): readonly CallRules[] => [
  definition,
  ...Object.values(definition.actions ?? {}).map((differing) => withOwn(definition, differing)),
]

/** Every permission that a call under these rules needs. */
export const permissionsOf = ({ permission, alsoNeeds = [] }: Pick<CallRules, 'permission' | 'alsoNeeds'>) => [
  ...(permission === null ? [] : [permission]),
  ...alsoNeeds,
]

/** The first permission that the caller lacks; undefined if it has all. */
export function missingPermission({ permission, alsoNeeds }: CallRules, principal: Principal): Permission | undefined {
  if (permission !== null && !isPermitted(principal, permission)) return permission
  return alsoNeeds?.find((other) => !isPermitted(principal, other))
}
