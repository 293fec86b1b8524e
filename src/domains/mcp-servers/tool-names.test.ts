import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { slugOf, toolName } from './tool-names.ts'

const never = (): boolean => false

describe('the names of foreign tools', () => {
  it.each([
    ['GitHub', 'github'],
    ['  Große  Straße! ', 'gro_e_stra_e'],
    ['Crème brûlée', 'creme_brulee'],
    ['agent', expect.stringMatching(/^agent_[0-9a-f]{6}$/)],
    ['日本', expect.stringMatching(/^server_[0-9a-f]{6}$/)],
    ['x'.repeat(100), 'x'.repeat(32)],
  ])('begin with the server, here %s', (name, slug) => expect(slugOf(name, 'id')).toEqual(slug))

  it('fit what clients take, and are the same each time', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 100 }), fc.string({ maxLength: 200 }), fc.uuid(), (name, tool, id) => {
        const server = { id, slug: slugOf(name, id) }
        const made = toolName(server, tool, never)
        expect(made).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
        expect(toolName(server, tool, never)).toBe(made)
      }),
    )
  })

  it('differ when tools differ by what a name cannot have, by their ends, or only by the server', () => {
    const server = { id: 'a', slug: 'up' }
    const long = 'x'.repeat(80)
    const names = ['read.file', 'read/file', 'read_file', `${long}1`, `${long}2`].map((tool) =>
      toolName(server, tool, never),
    )
    expect(new Set(names).size).toBe(names.length)
    const first = toolName(server, 'echo', never)
    expect(first).toBe('up__echo')
    expect(toolName({ id: 'b', slug: 'up' }, 'echo', (name) => name === first)).toMatch(/^up__echo_[0-9a-f]{6}$/)
  })
})
