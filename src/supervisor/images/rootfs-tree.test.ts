import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createRootfsTree } from './rootfs-tree.ts'

const refused = expect.objectContaining({ code: 'ERR_INVALID_INPUT' })

describe('a root file system under construction', () => {
  it('says where a name leads, and which directories are missing', () => {
    const tree = createRootfsTree(100)
    expect(tree.add('./a//b/c', 'file', '', 1)).toEqual({ path: 'a/b/c', parents: ['a', 'a/b'], obstacle: undefined })
    expect(tree.add('a/d', 'file', '', 1)).toEqual({ path: 'a/d', parents: [], obstacle: undefined })
    expect(tree.add('./', 'directory', '', 1)).toEqual({ path: '', parents: [], obstacle: undefined })
  })

  it('follows links as the workspace would, from its own root', () => {
    const tree = createRootfsTree(100)
    tree.add('lib', 'symlink', 'usr/lib', 1)
    tree.add('etc/here', 'symlink', '/var/../opt', 1)
    tree.add('var', 'directory', '', 1)
    expect(tree.add('lib/x', 'file', '', 2)).toMatchObject({ path: 'usr/lib/x', parents: ['usr', 'usr/lib'] })
    expect(tree.add('etc/here/y', 'file', '', 2)).toMatchObject({ path: 'opt/y', parents: ['opt'] })
    expect(tree.linkTarget('lib/x')).toEqual({ path: 'usr/lib/x', kind: 'file', target: '' })
  })

  it.each([
    ['an absolute name', '/etc/passwd'],
    ['a name that climbs', 'a/../../etc/passwd'],
    ['a link that climbs out', 'out/etc/passwd'],
    ['a link through a link that climbs out', 'twice/etc/passwd'],
    ['a loop of symbolic links', 'left/x'],
    ['something inside a file', 'file/x'],
    ['a name with a zero byte', 'a\0b'],
    ['a name that is too long', 'x'.repeat(256)],
    ['a path that is too long', 'x/'.repeat(2500)],
  ])('refuses %s', (_, name) => {
    const tree = createRootfsTree(10_000)
    tree.add('out', 'symlink', '../..', 1)
    tree.add('twice', 'symlink', 'sub/further', 1)
    tree.add('sub/further', 'symlink', '../../x', 1)
    tree.add('left', 'symlink', 'right', 1)
    tree.add('right', 'symlink', 'left', 1)
    tree.add('file', 'file', '', 1)
    expect(() => tree.add(name, 'file', '', 2)).toThrow(refused)
    expect(() => tree.linkTarget(name)).toThrow(refused)
  })

  it('replaces what an earlier layer has, and refuses two things under one name in one layer', () => {
    const tree = createRootfsTree(100)
    tree.add('a/b', 'file', '', 1)
    expect(tree.add('a', 'file', '', 2)).toMatchObject({ path: 'a', obstacle: 'a' })
    expect(tree.add('a', 'symlink', 'x', 2)).toMatchObject({ path: 'a', obstacle: undefined })
    expect(() => tree.add('a', 'directory', '', 2)).toThrow(refused)
    expect(tree.add('a', 'directory', '', 3)).toMatchObject({ path: 'a', obstacle: 'a' })
  })

  it('removes names and empties directories', () => {
    const tree = createRootfsTree(100)
    tree.add('d/one', 'file', '', 1)
    tree.add('d/two/three', 'file', '', 1)
    tree.add('link', 'symlink', 'd', 1)
    expect(tree.remove('link/one')).toEqual(['d/one'])
    expect(tree.remove('d/one')).toEqual([])
    expect(tree.remove('absent/one')).toEqual([])
    expect(tree.empty('link')).toEqual(['d/two'])
    expect(tree.empty('absent')).toEqual([])
    expect(() => tree.remove('.')).toThrow(refused)
  })

  it('holds no more than it is allowed to', () => {
    const tree = createRootfsTree(3)
    tree.add('a/b/c', 'file', '', 1)
    expect(() => tree.add('d', 'file', '', 1)).toThrow(expect.objectContaining({ code: 'ERR_TOO_LARGE' }))
  })
})

it('never places anything through a link or outside the root, whatever comes', () => {
  const part = fc.constantFrom('a', 'b', 'c', 'a', 'b', '.')
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'))
  const target = fc.array(fc.constantFrom('a', 'b', 'c', '..', ''), { minLength: 1, maxLength: 4 })
  const action = fc.record({
    name: path,
    kind: fc.constantFrom('file', 'directory', 'directory', 'symlink'),
    target: target.map((parts) => parts.join('/')),
  })
  fc.assert(
    fc.property(fc.array(action, { maxLength: 30 }), (actions) => {
      const tree = createRootfsTree(10_000)
      const kinds = new Map<string, string>()
      for (const [index, { name, kind, target }] of actions.entries()) {
        let added: ReturnType<typeof tree.add>
        try {
          added = tree.add(name, kind as 'file', target, index)
        } catch {
          // A refusal ends the image.
          return
        }
        for (const parent of added.parents) kinds.set(parent, 'directory')
        const parts = added.path.split('/')
        expect(parts).not.toContain('..')
        expect(added.path.startsWith('/')).toBe(false)
        for (let depth = 1; depth < parts.length; depth += 1) {
          expect(kinds.get(parts.slice(0, depth).join('/'))).toBe('directory')
        }
        if (added.obstacle !== undefined) {
          for (const known of [...kinds.keys()]) if (known.startsWith(`${added.obstacle}/`)) kinds.delete(known)
        }
        if (added.path !== '') kinds.set(added.path, kind)
      }
    }),
    { numRuns: 2000 },
  )
})
