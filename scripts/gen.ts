/**
 * Writes the reference and the snapshots of the public surface from the program: `node scripts/gen.ts`.
 * With `--check` it writes nothing, names each file that does not agree, and exits with 1 if there is one.
 */
import { fileURLToPath } from 'node:url'
import { findStale, generatedFiles, writeGenerated } from './gen/generate.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const isCheck = process.argv.includes('--check')
const files = await generatedFiles()
const stale = isCheck ? await findStale(root, files) : await writeGenerated(root, files)
for (const { path, problem } of stale) console.log(isCheck ? `${path}: ${problem}` : path)
if (isCheck && stale.length > 0) {
  console.log('Run npm run gen, and read the difference: it is what users will notice.')
  process.exitCode = 1
}
