import { lstat, readdir, readFile, readlink, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import { createFileModel, type FileModel } from '../../../test/support/file-model.ts'
import { makeFileTree, textOf } from '../../../test/support/file-tree.ts'
import { isLongRun } from '../../../test/support/long-run.ts'
import { AppError } from '../../contract/app-error.ts'
import type { WorkspaceFiles } from '../../domains/workspaces/backend.ts'

vi.setConfig({ testTimeout: isLongRun ? 900_000 : 60_000 })

type Model = Parameters<Parameters<FileModel['answer']>[0]>[0]
type Action = Readonly<{
  text: string
  inModel(model: Model): string
  inTree(files: WorkspaceFiles, root: string): Promise<string>
}>

const done = async (work: Promise<unknown>): Promise<string> => work.then(() => 'done')

const relative = fc.array(fc.constantFrom('a', 'b', 'c', 'a', 'b', '..', '.', ''), { minLength: 1, maxLength: 5 })
const path = relative.map((names) => `/${names.join('/')}`)
const linkTarget = fc.tuple(fc.boolean(), relative).map(([isAbsolute, names]) => {
  const target = (isAbsolute ? '/' : '') + names.join('/')
  return target === '' ? '.' : target
})
const plainPath = fc
  .array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 3 })
  .map((names) => `/${names.join('/')}`)

const action: fc.Arbitrary<Action> = fc.oneof(
  path.map((input) => ({
    text: `stat ${input}`,
    inModel: (model: Model) => model.stat(input),
    inTree: async (files: WorkspaceFiles) => (await files.stat(input)).kind,
  })),
  path.map((input) => ({
    text: `list ${input}`,
    inModel: (model: Model) => model.list(input),
    inTree: async (files: WorkspaceFiles) =>
      (await files.list(input, 100)).entries.map(({ name, kind }) => `${name}:${kind}`).join(),
  })),
  path.map((input) => ({
    text: `read ${input}`,
    inModel: (model: Model) => model.read(input),
    inTree: async (files: WorkspaceFiles) => textOf(await files.read(input)),
  })),
  fc.tuple(path, fc.string({ unit: 'grapheme-ascii', maxLength: 5 })).map(([input, text]) => ({
    text: `write ${input} ${JSON.stringify(text)}`,
    inModel: (model: Model) => model.write(input, text),
    inTree: async (files: WorkspaceFiles) => String((await files.write(input, Buffer.from(text))).bytes),
  })),
  path.map((input) => ({
    text: `makeDirectory ${input}`,
    inModel: (model: Model) => model.makeDirectory(input),
    inTree: (files: WorkspaceFiles) => done(files.makeDirectory(input)),
  })),
  fc.tuple(path, fc.boolean()).map(([input, recursive]) => ({
    text: `remove ${input} ${recursive}`,
    inModel: (model: Model) => model.remove(input, recursive),
    inTree: (files: WorkspaceFiles) => done(files.remove(input, { recursive })),
  })),
  fc.tuple(path, path).map(([from, to]) => ({
    text: `rename ${from} ${to}`,
    inModel: (model: Model) => model.rename(from, to),
    inTree: (files: WorkspaceFiles) => done(files.rename(from, to)),
  })),
)

/** Created directly, and only where no link is on the path, which the system would follow out of the root. */
const link: fc.Arbitrary<Action> = fc.tuple(plainPath, linkTarget).map(([input, target]) => ({
  text: `link ${input} -> ${target}`,
  inModel: (model: Model) => model.link(input, target),
  async inTree(_files: WorkspaceFiles, root: string) {
    const names = input.split('/').slice(1)
    for (let count = 1; count < names.length; count += 1) {
      const info = await lstat(join(root, ...names.slice(0, count))).catch(() => undefined)
      if (info?.isDirectory() !== true) return 'not made'
    }
    return done(symlink(target, join(root, input))).catch(() => 'not made')
  },
}))

async function answerOf(work: Promise<string>): Promise<string> {
  try {
    return await work
  } catch (error) {
    if (error instanceof AppError) return error.code
    throw error
  }
}

async function treeBelow(directory: string): Promise<unknown> {
  const found = new Map<string, unknown>()
  for (const entry of (await readdir(directory, { withFileTypes: true })).toSorted((a, b) =>
    a.name < b.name ? -1 : 1,
  )) {
    const full = join(directory, entry.name)
    if (entry.isSymbolicLink()) found.set(entry.name, { to: await readlink(full) })
    else found.set(entry.name, entry.isDirectory() ? await treeBelow(full) : await readFile(full, 'utf8'))
  }
  return found
}

it('does what the model does, action by action, and leaves the same tree', async () => {
  const actions = fc.array(fc.oneof({ weight: 5, arbitrary: action }, { weight: 2, arbitrary: link }), {
    maxLength: 25,
  })
  await fc.assert(
    fc.asyncProperty(actions, async (chosen) => {
      await using tree = await makeFileTree()
      const model = createFileModel()
      for (const { text, inModel, inTree } of chosen) {
        const isLink = text.startsWith('link ')
        const answered = await answerOf(inTree(tree.files, tree.root))
        // Whether a link can be created is up to the file system; the model follows it.
        if (isLink && answered !== 'done') continue
        expect(`${text}: ${answered}`).toBe(`${text}: ${model.answer(inModel)}`)
      }
      expect(await treeBelow(tree.root)).toEqual(model.tree())
      expect(await readdir(tree.outside)).toEqual([])
    }),
    { numRuns: isLongRun ? 3_000 : 150 },
  )
})
