import { z } from 'zod'
import { flag, group, rule } from './config-parts.ts'

const extensionRule = rule('a list of extensions such as md, of letters and digits')
const folderNameRule = rule('a list of folder names such as .git')

export const vaultSection = group(
  {
    enabled: flag(true, 'Whether the vault is enabled.'),
    path: z
      .string(rule('a directory path'))
      .min(1, rule('a directory path'))
      .optional()
      .describe(
        'Folder of the notes, such as a vault of Obsidian; it must not contain the data directory. Default: `vault` in the data directory. Each other tenant has its own folder in `vaults` in the data directory.',
      ),
    extensions: z
      .array(z.string(extensionRule).regex(/^[A-Za-z0-9]{1,16}$/, extensionRule), extensionRule)
      .min(1, extensionRule)
      .default(['md'])
      .describe('Extensions of notes, without the dot. Other files are neither listed nor changed.'),
    exclude_dirs: z
      .array(z.string(folderNameRule).regex(/^(?!\.{1,2}$)[^/]{1,255}$/, folderNameRule), folderNameRule)
      .default(['.obsidian', '.trash', '.git'])
      .describe('Names of folders that are excluded from the vault, wherever they are in it.'),
  },
  'The vault: a folder of Markdown notes.',
)
