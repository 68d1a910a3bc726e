import { chatSettings } from './chat-settings.ts';
import type { ConfigOf, SettingTable } from './settings.ts';

const { url: _found, model: _positional, ...rest } = chatSettings;

/** The settings of `runnel run`: those of `runnel chat` without the server and the model, which it determines itself. */
export const runSettings = rest satisfies SettingTable;

export type RunConfig = ConfigOf<typeof runSettings>;
