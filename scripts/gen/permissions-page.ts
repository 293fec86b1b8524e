import { isPermitted, type Permission, permissions } from '../../src/contract/permissions.ts'
import { localOwner, roles, tierAllows, tiers } from '../../src/contract/principal.ts'
import { allRulesOf } from '../../src/tools/runtime/call-rules.ts'
import type { Catalog, CatalogTool } from '../../src/tools/runtime/catalog.ts'
import { code, page, table } from './markdown.ts'

const mark = (yes: boolean): string => (yes ? 'yes' : '')

/** Where a permission is asked for: by a tool, or by some of its actions. */
function placesOf({ name, definition }: CatalogTool, permission: Permission): string[] {
  const entries = Object.entries(definition.actions ?? {})
  const actions = entries.filter(([, rules]) => rules.permission === permission).map(([action]) => action)
  if (definition.permission === permission) return [code(name)]
  return actions.length === 0 ? [] : [`${code(name)} (${actions.join(', ')})`]
}

const permissionsOf = (definition: CatalogTool['definition']): string[] => [
  ...new Set(allRulesOf(definition).map(({ permission }) => (permission === null ? 'none' : code(permission)))),
]

/** What is asked here is what the pipeline asks, so the table cannot differ from what is enforced. */
export const permissionsPage = (catalog: Catalog): string =>
  page(
    '# Permissions',
    'A call needs the permission and the tier of its tool; where single actions of a tool have a permission of their own, theirs. A role brings its permissions; the scopes of an API key narrow them and never widen them.',
    table(
      ['permission', ...roles, 'tools'],
      permissions.map((permission) => [
        code(permission),
        ...roles.map((role) => mark(isPermitted({ ...localOwner, role }, permission))),
        catalog.tools.flatMap((tool) => placesOf(tool, permission)).join(', '),
      ]),
    ),
    '## Tools',
    table(
      ['tool', 'permission', ...tiers.map((tier) => `tier ${tier}`)],
      catalog.tools.map(({ name, definition }) => [
        code(name),
        permissionsOf(definition).join(', '),
        ...tiers.map((tier) => mark(tierAllows(tier, definition.tier))),
      ]),
    ),
  )
