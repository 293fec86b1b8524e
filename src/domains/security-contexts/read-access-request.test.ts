import { expect, it } from 'vitest'
import { readAccessRequest } from './read-access-request.ts'

it('a repository is cloned from a path, or from another machine', () => {
  const governed = { opaque: 'commands', paths: ['path'], sources: ['url'] } as const
  const pathsOf = (url: string) => readAccessRequest('git_clone', governed, { url, path: '/workspace/a' }).paths
  expect(pathsOf('https://example.com/x.git')).toEqual(['/workspace/a'])
  expect(pathsOf('user@example.com:/x.git')).toEqual(['/workspace/a'])
  expect(pathsOf('/workspace/secret')).toEqual(['/workspace/a', '/workspace/secret'])
  expect(() => pathsOf('/workspace/a/../secret')).toThrow('url')
})
