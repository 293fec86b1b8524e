import { AppError } from '../contract/app-error.ts'
import { isPermitted } from '../contract/permissions.ts'
import type { SkillService } from '../domains/skills/service.ts'
import type { Logger } from '../kernel/logger.ts'
import type { SkillSource, SkillSummary } from '../mcp/skill-source.ts'

/**
 * The skills on disk for the MCP transport. They belong to the installation, so every principal with skill:read sees the same,
 * and others see none. A skill whose files cannot be listed is omitted and logged.
 */
export function adaptSkills(skills: SkillService, logger: Logger): SkillSource {
  return {
    async list(principal) {
      if (!isPermitted(principal, 'skill:read')) return []
      const summaries: SkillSummary[] = []
      for (const { name, description } of await skills.details()) {
        try {
          const files = (await skills.files(name)).map(({ file }) => file)
          summaries.push({ name, description, files })
        } catch (error) {
          logger.warn('skill left out: its files cannot be listed', { skill: name, cause: String(error) })
        }
      }
      return summaries
    },
    async read(principal, skill, path) {
      if (!isPermitted(principal, 'skill:read')) return undefined
      try {
        return await skills.readFile(skill, path)
      } catch (error) {
        if (isNotFound(error)) return undefined
        throw error
      }
    },
    async refresh() {
      await skills.problems()
    },
    onChange: (listener) => skills.onChange(listener),
  }
}

const isNotFound = (error: unknown): boolean =>
  error instanceof AppError && (error.code === 'ERR_NOT_FOUND' || error.code === 'ERR_SKILL_NOT_FOUND')
