import { chatSettings } from './chat-settings.ts';
import { type ConfigOf, type SettingTable, settingsHelp } from './settings.ts';

const { url: _found, model: _positional, ...rest } = chatSettings;

/** The settings of `runnel run`: those of a chat, but for what it finds by itself. */
export const runSettings = rest satisfies SettingTable;

export type RunConfig = ConfigOf<typeof runSettings>;

export function runHelp(): string {
  return settingsHelp(runSettings);
}
