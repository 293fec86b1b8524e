import { isPermitted, permissions } from '../../src/contract/permissions.ts'
import { localOwner, roles, tierAllows, tiers } from '../../src/contract/principal.ts'
import type { Catalog } from '../../src/tools/runtime/catalog.ts'
import { code, page, table } from './markdown.ts'

const mark = (yes: boolean): string => (yes ? 'yes' : '')

/** What is asked here is what the pipeline asks, so the table cannot differ from what is enforced. */
export const permissionsPage = (catalog: Catalog): string =>
  page(
    '# Permissions',
    'A call needs the permission and the tier of its tool. A role brings its permissions; the scopes of an API key narrow them and never widen them.',
    table(
      ['permission', ...roles, 'tools'],
      permissions.map((permission) => [
        code(permission),
        ...roles.map((role) => mark(isPermitted({ ...localOwner, role }, permission))),
        catalog.tools
          .filter((tool) => tool.definition.permission === permission)
          .map((tool) => code(tool.name))
          .join(', '),
      ]),
    ),
    '## Tools',
    table(
      ['tool', 'permission', ...tiers.map((tier) => `tier ${tier}`)],
      catalog.tools.map(({ name, definition }) => [
        code(name),
        definition.permission === null ? 'none' : code(definition.permission),
        ...tiers.map((tier) => mark(tierAllows(tier, definition.tier))),
      ]),
    ),
  )
