import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { findStale, generatedFiles, writeGenerated } from '../../scripts/gen/generate.ts'
import { buildOpenApi } from '../../src/http/openapi.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { repositoryRoot } from './source-files.ts'

describe('generated files', () => {
  it('agree with the program', async () => {
    const stale = await findStale(repositoryRoot, await generatedFiles())
    expect(
      stale.map(({ path, problem }) => `${path}: ${problem}`),
      'run npm run gen and read the difference',
    ).toEqual([])
  })

  it('are the same each time', async () => {
    expect(await generatedFiles()).toEqual(await generatedFiles())
  })
})

describe('the snapshot of the OpenAPI document', () => {
  type Document = Readonly<{ paths: Record<string, Record<string, unknown>> }>

  it('has every operation, and no text of a tool', async () => {
    const files = await generatedFiles()
    const catalog = createCatalog(await loadAllTools())
    const snapshot = files.get('surface/openapi.json')!
    const operations = ({ paths }: Document): string[] =>
      Object.entries(paths).flatMap(([path, item]) => Object.keys(item).map((method) => `${method} ${path}`))
    expect(operations(JSON.parse(snapshot) as Document).sort()).toEqual(operations(buildOpenApi(catalog, '1')).sort())
    const repeated = catalog.tools.filter(({ listed }) => snapshot.includes(JSON.stringify(listed.description)))
    expect(repeated.map(({ name }) => name)).toEqual([])
  })
})

describe('the check of generated files', () => {
  let root: string
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'castellan-generated-'))
  })
  afterEach(() => rm(root, { recursive: true, force: true }))

  it('notices a missing, a changed and an unknown file, and writing puts all three right', async () => {
    const files = new Map([
      ['docs/reference/one.md', 'one\n'],
      ['surface/tools/two.json', '{}\n'],
    ])
    expect(await writeGenerated(root, files)).toHaveLength(2)
    expect(await findStale(root, files)).toEqual([])

    await writeFile(join(root, 'docs/reference/one.md'), 'two\n')
    await rm(join(root, 'surface/tools/two.json'))
    await writeFile(join(root, 'surface/tools/three.json'), '{}\n')
    const expected = [
      { path: 'docs/reference/one.md', problem: 'differs' },
      { path: 'surface/tools/two.json', problem: 'missing' },
      { path: 'surface/tools/three.json', problem: 'not generated' },
    ]
    expect(await findStale(root, files)).toEqual(expected)
    expect(await writeGenerated(root, files)).toEqual(expected)
    expect(await findStale(root, files)).toEqual([])
    expect(await readFile(join(root, 'docs/reference/one.md'), 'utf8')).toBe('one\n')
  })
})
