import { describe, expect, it } from 'vitest'
import { restRows } from './rest-table.ts'

/** What a row needs in its body before it looks at anything else. */
const bodyOf = (path: string): Record<string, unknown> => {
  if (path.endsWith('/scope')) return { target_scope: 'tenant' }
  return path.endsWith('/reject') ? { reason: 'no' } : {}
}

describe('the table of REST', () => {
  const named = restRows.filter(({ path }) => path.includes('{'))

  it.each(named.map((row) => [row.method, row.path, row] as const))(
    '%s %s hands on all that its address names',
    (_, path, row) => {
      const names = [...path.matchAll(/\{([a-z]+)(?:\.\.\.)?\}/g)].map(([, name]) => name!)
      const params = Object.fromEntries(names.map((name) => [name, `the-${name}`]))
      const args = row.args({ params, query: new URLSearchParams(), body: bodyOf(path) })
      expect(Object.values(args)).toEqual(expect.arrayContaining(Object.values(params)))
    },
  )

  it.each(named.map((row) => [row.method, row.path, row] as const))(
    '%s %s lets no body change what its address names',
    (_, path, row) => {
      const body = { ...bodyOf(path), agent_id: 'other', execution_id: 'other', name: 'other' }
      const params = { id: 'the-id', name: 'the-name', path: 'the-path' }
      const handed = (): unknown[] => Object.values(row.args({ params, query: new URLSearchParams(), body }))
      let args: unknown[]
      try {
        args = handed()
      } catch (error) {
        expect(String(error)).toContain('Unknown field')
        return
      }
      expect(args.some((value) => value === 'the-id' || value === 'the-name')).toBe(true)
    },
  )
})
