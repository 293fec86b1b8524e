import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { fieldRows, type Schema } from '../../src/cli/schema-fields.ts'
import { permissionsOf, rulesFor } from '../../src/tools/runtime/call-rules.ts'
import type { Catalog, CatalogTool } from '../../src/tools/runtime/catalog.ts'
import { toolsets } from '../../src/tools/runtime/define-tool.ts'
import { defaultTools } from '../../src/tools/runtime/exposure.ts'
import { stageNames } from '../../src/tools/runtime/stages.ts'
import { type GlossaryTerm, glossaryLinks, glossaryTerms } from './glossary-links.ts'
import { anchor, code, page, table } from './markdown.ts'

export async function toolsPage(catalog: Catalog): Promise<string> {
  const terms = glossaryTerms(await readFile(new URL('../../docs/glossary.md', import.meta.url), 'utf8'))
  return page(
    '# Tools',
    `Every call of every tool, from every transport, passes the same stages in this order: ${stageNames.join(' → ')}. A refusal at any stage is answered as \`{"error":{"code","message","details"}}\` with a code of the [error register](errors.md). Who may call what is in [permissions](permissions.md).`,
    'With `--tools default` a client is shown the tools marked *default* and finds the rest with `search_tools`; with `--tools full` it is shown all of them. Every tool that a caller may use can be called by name, shown or not.',
    toolsets.map((toolset) => {
      const tools = catalog.tools.filter((tool) => tool.definition.toolset === toolset)
      const links = tools.map((tool) => `[${code(tool.name)}](${anchor(tool.name)})`)
      return `**${toolset}**: ${links.join(', ')}`
    }),
    (await Promise.all(catalog.tools.map((tool) => toolBlocks(tool, terms)))).flat(),
  )
}

async function toolBlocks(tool: CatalogTool, terms: readonly GlossaryTerm[]): Promise<string[]> {
  const { definition, listed } = tool
  const { output } = await tool.load()
  const parameters = fieldRows(listed.inputSchema, code)
  return [
    `## ${code(tool.name)}`,
    `**${definition.title}.** ${definition.description}`,
    factsLine(tool),
    ...termsLine(tool, terms),
    ...actionBlocks(tool),
    ...(parameters.length === 0
      ? ['No parameters.']
      : [
          table(
            ['parameter', 'type', 'default', 'limits', 'meaning'],
            parameters.map((row) => [
              code(row.path),
              row.type,
              row.required ? '*required*' : row.default,
              row.limits,
              row.description,
            ]),
          ),
        ]),
    ...(output === undefined
      ? ['The answer is that of the tool that runs.']
      : [
          table(
            ['field of the answer', 'type', 'present', 'meaning'],
            fieldRows(z.toJSONSchema(output, { io: 'output' }) as Schema, code).map((row) => [
              code(row.path),
              row.type,
              row.required ? 'always' : 'sometimes',
              row.description,
            ]),
          ),
        ]),
  ]
}

function termsLine({ definition }: CatalogTool, terms: readonly GlossaryTerm[]): string[] {
  const links = glossaryLinks(terms, definition.toolset, `${definition.title} ${definition.description}`)
  return links.length === 0 ? [] : [`Terms: ${links.join(', ')}`]
}

/** What single actions ask for, where a tool has rules of its own for some. */
function actionBlocks({ definition }: CatalogTool): string[] {
  if (definition.actions === undefined) return []
  const rows = Object.keys(definition.actions).map((action) => {
    const rules = rulesFor(definition, { action })
    return [code(action), permissionsOf(rules).map(code).join(' and ') || 'none', rules.effect, rules.rate]
  })
  return [table(['action', 'permission', 'effect', 'rate category'], rows)]
}

function factsLine({ name, safeName, definition }: CatalogTool): string {
  return [
    definition.permission === null
      ? 'no permission'
      : `permission ${permissionsOf(definition).map(code).join(' and ')}`,
    `tier ${definition.tier}`,
    `effect ${definition.effect}${definition.idempotent && definition.effect !== 'read' ? ', idempotent' : ''}`,
    `rate category ${definition.rate}`,
    ...(defaultTools.includes(name) ? ['*default*'] : []),
    ...(definition.minimal === true ? ['answers in mode MINIMAL'] : []),
    ...(safeName === name ? [] : [`also callable as ${code(safeName)}`]),
  ].join(' · ')
}
