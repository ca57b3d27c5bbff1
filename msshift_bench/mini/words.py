"""Word lists for the values of the `mini` collection's facts, and unusual question templates."""

from __future__ import annotations

from collections.abc import Mapping

SLOTS: Mapping[str, tuple[str, ...]] = {
    slot: tuple(words.split())
    for slot, words in {
        "month": "January February March April May June July August September October November",
        "trait": "gifted stubborn restless shy bold witty gentle brilliant eccentric tireless",
        "role": "painter singer poet actor dancer sculptor composer goalkeeper magician cellist",
        "town": "Harnfold Quillby Ostrava Melden Tarnham Ruxley Veldport Cawdale Pinmoor Sarnbeck",
        "illness": "pneumonia drowning poisoning tuberculosis cholera exhaustion fever gangrene",
        "gloss": "bright silent golden broken sacred hidden swift frozen noble humble",
        "element": "river shepherd thunder meadow hammer falcon lantern orchard harbour wolf",
        "landmark": "bridge harbour citadel abbey plain valley crossroads shipyard quarry",
        "region": "Ardmark Belloway Cestria Dunland Elvia Farholm Gantria Hollmark Isteria Jutmark",
        "title": "General Bishop Duchess Captain Mayor Admiral Chancellor Marshal Abbess Consul",
        "surname": "Aldane Berwyn Crosley Dunmore Eskin Farrow Gressel Hadlow Ingram Jessop",
        "adjective": "sudden bitter fragile costly secret hasty lasting shaky bloodless",
        "trigger": "taxation drought conscription rumour bankruptcy smuggling",
        "crowd": "spectators citizens pilgrims soldiers farmers sailors students delegates",
        "settlement": "truce ceasefire referendum reform partition constitution surrender",
        "material": "granite bronze marble steel cedar copper limestone silver",
        "monument": "pillar fountain chapel column statue archway plaque cenotaph",
        "booktitle": "Ashes Embers Banners Thunder Torchlight Reckoning Homecoming Daybreak",
        "currency": "dollars pounds euros francs shillings pesos rupees ducats",
        "mass": "kilograms pounds stones ounces quarters hundredweights",
        "firm": "Norvane Halberg Silverline Ortano Brightway Castell Delmar Ironwood Fairmont",
        "suffix": "Industries Brothers Limited Works Partners Corporation Holdings",
        "volume": "liters quarts gallons pints cups barrels",
        "severity": "chronic acute mild recurrent seasonal inherited",
        "disease": "asthma eczema migraine arthritis anemia insomnia gout bronchitis diabetes",
        "symptom": "nausea dizziness itching cramps drowsiness headache sweating trembling",
        "complaint": "thirst rash fatigue bloating hiccups blurred-vision numbness palpitations",
        "rhythm": "daily hourly nightly weekly twice-daily",
        "food": "grapefruit alcohol milk coffee cheese liquorice spinach garlic",
        "drug": "aspirin iron-pills antacids sedatives steroids diuretics antibiotics insulin",
        "prefix": "hydrated sodium potassium synthetic herbal crystalline",
        "compound": "salicylate chloride quinine codeine glycerin menthol camphor citrate",
        "scholar": "Professor-Lindqvist Doctor-Okafor Doctor-Marchetti Professor-Haldane",
        "clinic": "Northgate Saint-Odile Riverside Lakeview Mercy Westbrook Hillcrest",
        "condition": "cool dark dry sealed refrigerated shaded",
        "container": "cupboard fridge flask drawer cabinet cellar",
        "rank": "order family phylum tribe class",
        "clade": "Lumidae Vorticales Spongida Arthromorpha Mycetina Cephalida Bryophora Nematida",
        "biome": "brackish alpine tropical volcanic coastal arctic submerged limestone",
        "zone": "caves estuaries ridges lagoons trenches swamps reefs geysers",
        "texture": "decaying microscopic floating dissolved rotting mineral",
        "nutrient": "plankton pollen cellulose krill sulfur nectar larvae sap",
        "span": "days weeks months years seasons",
        "scale": "celsius fahrenheit kelvin",
        "cube": "liter pint gallon bucket",
        "mode": "airborne sticky dormant fertilized budding drifting",
        "organ": "spores eggs seeds polyps cysts runners",
        "hunter": "spotted horned giant dwarf blind striped",
        "animal": "heron otter pike gecko shrew octopus toad spider",
    }.items()
}
"""Slot -> its words, in an order that must not change. A hyphen becomes a space."""

ODD_FRAMES = (
    "show {n} {topic}",
    "show me the {topic} of {n}",
    "the whole truth about {n} {topic}",
    "{topic} of the whole {n}",
)
"""Templates with question words only inside other words, as in 35 of the release's 6,497 ``how``
test queries."""

DOUBLE_FRAMES = (
    "who knows what the {topic} of {n} is",
    "what is {n} and which {topic} has it",
    "how and when to find {n} {topic}",
)
"""Templates with question words of two groups."""
