import { type Permission, permissions, permissionsOfRole } from '../../src/contract/permissions.ts'
import { roles, tierAllows, tiers } from '../../src/contract/principal.ts'
import { allRulesOf, permissionsOf, rulesFor } from '../../src/tools/runtime/call-rules.ts'
import type { Catalog, CatalogTool } from '../../src/tools/runtime/catalog.ts'
import { code, page, table } from './markdown.ts'

const mark = (yes: boolean): string => (yes ? 'yes' : '')

/** Where a permission is asked for: by a tool, or by some of its actions. */
function usersOf({ name, definition }: CatalogTool, permission: Permission): string[] {
  const actions = Object.keys(definition.actions ?? {}).filter((action) =>
    permissionsOf(rulesFor(definition, { action })).includes(permission),
  )
  if (permissionsOf(definition).includes(permission)) return [code(name)]
  return actions.length === 0 ? [] : [`${code(name)} (${actions.join(', ')})`]
}

const needsOf = (definition: CatalogTool['definition']): string[] => [
  ...new Set(allRulesOf(definition).map((rules) => permissionsOf(rules).map(code).join(' and ') || 'none')),
]

/** What is asked here is what the pipeline asks, so the table cannot differ from what is enforced. */
export const permissionsPage = (catalog: Catalog): string =>
  page(
    '# Permissions',
    'A call needs the permission and the tier of its tool; where single actions of a tool have a permission of their own, theirs. A call that does what another tool is there for needs the permission of that tool as well. `git_status` and `git_diff` only look, yet they need `workspace:exec`: git is a program of the workspace, and the settings of a repository name programs that it starts. A role brings its permissions; the scopes of an API key narrow them and never widen them. `admin` of a resource reaches what everybody in the tenant has of it, and `team-admin` changes what is shared with a team of which the caller is a member. `team` is a team of agents, `userTeam` one of people.',
    table(
      ['permission', ...roles, 'tools'],
      permissions.map((permission) => [
        code(permission),
        ...roles.map((role) => mark(permissionsOfRole(role).has(permission))),
        catalog.tools.flatMap((tool) => usersOf(tool, permission)).join(', '),
      ]),
    ),
    '## Tools',
    table(
      ['tool', 'permission', ...tiers.map((tier) => `tier ${tier}`)],
      catalog.tools.map(({ name, definition }) => [
        code(name),
        needsOf(definition).join(', '),
        ...tiers.map((tier) => mark(tierAllows(tier, definition.tier))),
      ]),
    ),
  )
