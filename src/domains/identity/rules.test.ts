import { describe, expect, it } from 'vitest'
import { permissionsOfRole } from '../../contract/permissions.ts'
import { checkExpiry, scopesOf } from './rules.ts'

describe('scopes that cannot be', () => {
  const refusalOf = (scope: string) => () => scopesOf([scope], 'member', permissionsOfRole('member'))

  it('are named, with the permission that was meant or where to find it', () => {
    expect(refusalOf('task:reed')).toThrow("'task:reed' is not a permission; did you mean task:read?")
    expect(refusalOf('tsk:*')).toThrow("'tsk:*' is not a permission; did you mean task:*?")
    expect(refusalOf('foo')).toThrow("'foo' is not a permission; role_list shows all of them")
  })

  it('are named when the role does not have them', () => {
    expect(refusalOf('apiKey:create')).toThrow("the role member does not have 'apiKey:create'")
  })
})

describe('a lifetime', () => {
  it.each([['90'], [90], ['90s']])('of %j is 90 seconds', (expires_in) => {
    expect(checkExpiry({ expires_in }, 1_000)).toBe(91_000)
  })

  it.each([['1 week'], ['0'], ['-5'], ['1.5'], [1.5], ['1e3'], ['']])('of %j is refused by name', (expires_in) => {
    expect(() => checkExpiry({ expires_in }, 0)).toThrow(`expires_in: '${expires_in}' is not a lifetime; write whole`)
  })
})
