import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createLinePeer, type LinePeer, modernMeta } from '../../test/support/line-peer.ts'
import { createSampleSkills } from '../../test/support/sample-skills.ts'

type Entry = { uri: string; resources: { uri: string; digest: string; size: number }[] }

async function listedSkills(peer: LinePeer): Promise<Entry[]> {
  return (await peer.request('skills/list')).result!['skills'] as Entry[]
}

it.each([
  ['resources/read', undefined, /^Invalid params of resources\/read: params: missing$/],
  ['resources/read', {}, /^Invalid params of resources\/read: params\.uri: missing$/],
  ['resources/read', { uri: 5 }, /^Invalid params of resources\/read: params\.uri: [^{[]+$/],
  ['resources/list', { cursor: [] }, /^Invalid params of resources\/list: params\.cursor: [^{[]+$/],
])('%s with %j is refused as the fault of its caller, by the name of the field', async (method, params, message) => {
  const peer = createLinePeer({ skills: createSampleSkills() })
  await peer.initialize()
  const { error } = await peer.request(method, params)
  expect([error?.code, error?.message]).toEqual([-32602, expect.stringMatching(message)])
})

describe('skills', () => {
  it('are declared and listed with every file, its size and its digest', async () => {
    const peer = createLinePeer({ skills: createSampleSkills() })
    const { result } = await peer.initialize()
    expect(result).toHaveProperty(['capabilities', 'extensions', 'io.modelcontextprotocol/skills'], {
      directoryRead: true,
    })
    const skills = await listedSkills(peer)
    expect(skills.map((skill) => skill.uri)).toEqual([
      'skill://review-notes/SKILL.md',
      'skill://write-summary/SKILL.md',
    ])
    for (const { uri, digest, size } of skills[0]!.resources) {
      const { result: read } = await peer.request('resources/read', { uri })
      const [content] = read!['contents'] as { text?: string; blob?: string }[]
      const bytes = Buffer.from(content!.text ?? content!.blob!, content!.text === undefined ? 'base64' : 'utf8')
      expect(bytes.byteLength).toBe(size)
      expect(digest).toBe(`sha256:${createHash('sha256').update(bytes).digest('hex')}`)
    }
  })

  it('answer alike in the stateless revision, with the fields it adds', async () => {
    const peer = createLinePeer({ skills: createSampleSkills() })
    const { result } = await peer.request('skills/get', { uri: 'skill://write-summary/SKILL.md', _meta: modernMeta })
    expect(result).toMatchObject({ ttlMs: 0, cacheScope: 'private', skill: { frontmatter: { name: 'write-summary' } } })
  })

  it('have folders that can be read, and only those', async () => {
    const peer = createLinePeer({ skills: createSampleSkills() })
    await peer.initialize()
    const { result } = await peer.request('resources/directory/read', { uri: 'skill://review-notes' })
    expect(
      (result!['resources'] as { name: string; mimeType: string }[]).map(({ name, mimeType }) => [name, mimeType]),
    ).toEqual([
      ['SKILL.md', 'text/markdown'],
      ['assets', 'inode/directory'],
      ['references', 'inode/directory'],
    ])
    for (const uri of ['skill://review-notes/SKILL.md', 'skill://none', 'not a uri']) {
      expect((await peer.request('resources/directory/read', { uri })).error?.code).toBe(-32602)
    }
    expect((await peer.request('skills/get', { uri: 'skill://none/SKILL.md' })).error?.code).toBe(-32602)
    expect((await peer.request('resources/read', { uri: 'skill://review-notes/../../etc/passwd' })).error).toBeDefined()
  })

  it('are announced when they change and then listed anew; one that breaks the rules is left out', async () => {
    const skills = createSampleSkills()
    const peer = createLinePeer({ skills })
    await peer.initialize()
    expect(await listedSkills(peer)).toHaveLength(2)
    skills.write('third/SKILL.md', '---\nname: another-name\ndescription: Does not match its folder.\n---\n')
    skills.write('fourth/SKILL.md', '---\nname: fourth\ndescription: Fine.\n---\n')
    await peer.next((message) => message.method === 'notifications/resources/list_changed')
    expect((await listedSkills(peer)).map((skill) => skill.uri)).toContain('skill://fourth/SKILL.md')
    expect(await listedSkills(peer)).toHaveLength(3)
  })

  it('do not exist without a source', async () => {
    const peer = createLinePeer()
    const { result } = await peer.initialize()
    expect(result).not.toHaveProperty(['capabilities', 'extensions', 'io.modelcontextprotocol/skills'])
    expect((await peer.request('skills/list')).error?.code).toBe(-32601)
  })
})
